// The choice of the net, of one to three methods with settings as on the command line, and of the fill.

import { byId, make } from "./shared.js";

/** Choose a value, and add it if it is not in the list: a program may have asked for it. */
function choose(select, value) {
  if (![...select.options].some((option) => option.value === value)) select.append(make("option", { value }, value));
  select.value = value;
}

export class Choices {
  constructor(about, { changedNet, changed, press }) {
    this.about = about;
    this.changed = changed;
    this.most = about.limits.methods;
    byId("net").append(...about.nets.map((net) =>
      make("option", { value: net.name, title: net.about }, net.name)));
    byId("fill").append(...about.fills.map(({ name }) => make("option", { value: name }, name)));
    byId("net").addEventListener("change", changedNet);
    byId("choices").addEventListener("submit", (event) => {
      event.preventDefault();
      press();
    });
    byId("methods").addEventListener("input", changed);
    this.set({ net: about.default.net, methods: about.default.methods, fill: about.default.fill });
  }

  get net() {
    return byId("net").value;
  }

  get fill() {
    return byId("fill").value;
  }

  /** The methods as the command line writes them: name, or name:setting=value. */
  get methods() {
    return this.rows
      .map(({ select, settings }) => [select.value, settings.value.trim()])
      .filter(([name]) => name)
      .map(([name, settings]) => (settings ? `${name}:${settings}` : name));
  }

  set({ net, methods, fill }) {
    choose(byId("net"), net);
    choose(byId("fill"), fill);
    this.rows = [];
    byId("methods").replaceChildren();
    for (const method of methods.slice(0, this.most)) this.addRow(method);
    this.tidy();
  }

  /** Add a row if all are used, so that there is always an empty one. */
  tidy() {
    const used = this.rows.filter(({ select }) => select.value).length;
    if (used === this.rows.length && used < this.most) this.addRow("");
    this.rows.forEach(({ node, select, settings }, place) => {
      node.hidden = place > used && !select.value;
      settings.hidden = !select.value;
    });
    const first = this.rows.filter(({ select }) => select.value).map(({ select }) => select.value);
    const about = (name) => this.about.methods.find((method) => method.name === name);
    byId("method-words").replaceChildren(...first.map((name) => {
      const method = about(name);
      const live = method?.live ? "" : " Its maps appear when they are finished.";
      const free = method?.label_free ? " One map for all labels." : "";
      return make("span", {}, make("b", {}, name), ` ${method?.about ?? ""}.${free}${live} `);
    }));
  }

  addRow(method) {
    const place = this.rows.length;
    const listed = this.about.methods.some((m) => m.name === method);
    const [name, ...rest] = listed ? [method] : method.split(":");
    const families = Map.groupBy
      ? Map.groupBy(this.about.methods, ({ family }) => family)
      : this.about.methods.reduce((all, m) => all.set(m.family, [...(all.get(m.family) ?? []), m]), new Map());
    const which = ["Method", "Second method", "Third method"][place] ?? `Method ${place + 1}`;
    const select = make("select", { "aria-label": which },
      ...(place ? [make("option", { value: "" }, "none")] : []),
      ...[...families].map(([family, members]) => make("optgroup", { label: family },
        ...members.map((m) => make("option", { value: m.name, title: m.about }, m.live ? `${m.name} · live` : m.name)))));
    choose(select, name);
    const settings = make("input", {
      type: "text", "aria-label": `Settings of the ${which.toLowerCase()}`, placeholder: "settings: name=value,name=value", autocomplete: "off", spellcheck: "false",
    });
    settings.value = rest.join(":");
    select.addEventListener("change", () => {
      settings.value = "";
      this.tidy();
      this.changed();
    });
    const node = make("div", { class: "method" }, make("span", { "aria-hidden": "true" }, which), select, settings);
    this.rows.push({ node, select, settings });
    byId("methods").append(node);
  }
}
