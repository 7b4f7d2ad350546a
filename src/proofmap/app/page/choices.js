// The choice of the net, of one to three methods with their settings, and of the fill.

import { NET } from "./sentences.js";
import { SettingsForm } from "./settings.js";
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
    byId("fill").append(...about.fills.map((fill) => make("option", { value: fill.name }, fill.about ? `${fill.name}: ${fill.about}` : fill.name)));
    byId("net").addEventListener("change", changedNet);
    byId("choices").addEventListener("submit", (event) => {
      event.preventDefault();
      press();
    });
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
    return this.rows.filter(({ select }) => select.value).map(({ form, select }) => form?.spec ?? select.value);
  }

  set({ net, methods, fill }) {
    choose(byId("net"), net);
    choose(byId("fill"), fill);
    this.rows = [];
    byId("methods").replaceChildren();
    for (const method of methods.slice(0, this.most)) this.addRow(method);
    this.tidy();
  }

  /** What the server says about a method, by its name or by a spec that begins with it. */
  find(spec) {
    const { methods } = this.about;
    return methods.find(({ name }) => name === spec) ?? methods.find(({ base }) => base === spec.split(":")[0]);
  }

  /** Add a row if all are used, so that there is always an empty one. */
  tidy() {
    const used = this.rows.filter(({ select }) => select.value).length;
    if (used === this.rows.length && used < this.most) this.addRow("");
    this.rows.forEach(({ node, select }, place) => { node.hidden = place > used && !select.value; });
  }

  addRow(spec) {
    const place = this.rows.length;
    const which = ["Method", "Second method", "Third method"][place] ?? `Method ${place + 1}`;
    const select = make("select", { "aria-label": which }, ...(place ? [make("option", { value: "" }, "none")] : []), ...this.groups());
    const row = { select, node: make("div", { class: "method" }, make("span", { "aria-hidden": "true" }, which), select), which };
    this.rows.push(row);
    this.describe(row, spec);
    select.addEventListener("change", () => {
      this.describe(row, select.value);
      this.tidy();
      this.changed();
    });
    byId("methods").append(row.node);
  }

  /** The options: the recommended methods with the reason, then the others by family. */
  groups() {
    const families = new Map([["Recommended", []]]);
    for (const method of this.about.methods) {
      const family = method.recommended ? "Recommended" : method.family;
      families.set(family, [...(families.get(family) ?? []), method]);
    }
    return [...families].filter(([, members]) => members.length).map(([family, members]) => make("optgroup", { label: family },
      ...members.map(({ name, about, recommended }) =>
        make("option", { value: name, title: about }, recommended ? `${name}: ${recommended}` : name))));
  }

  /** Choose the method of a spec in a row, and show what it is and its settings. */
  describe(row, spec) {
    const method = spec ? this.find(spec) : null;
    const form = method ? SettingsForm.of(method, spec, row.which, this.changed) : null;
    choose(row.select, form ? method.name : spec);
    row.form = form;
    row.node.querySelector(".about-method")?.remove();
    row.node.querySelector("details")?.remove();
    if (!method) return;
    const free = method.label_free ? " One map for all labels." : "";
    const live = method.live ? " You can watch its maps while they are learned." : "";
    row.node.append(make("p", { class: "soft about-method" }, `${method.about}. Passes of the ${NET}: ${method.passes}.${free}${live}`));
    if (form && method.settings.length) row.node.append(form.node);
  }
}
