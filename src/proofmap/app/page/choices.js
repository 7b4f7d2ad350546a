// The choice of one to three methods with their settings, of the net, and of the fill: one folded line.

import { get } from "./api.js";
import { NET, POSITIONS } from "./sentences.js";
import { SettingsForm } from "./settings.js";
import { byId, make } from "./shared.js";

const FIRST = 6; // methods that are listed first; the others are behind "more"

/** Choose a value, and add it if it is not in the list: a program may have asked for it. */
function choose(select, value) {
  if (![...select.options].some((option) => option.value === value)) select.append(make("option", { value }, value));
  select.value = value;
}

export class Choices {
  constructor(about, { changedNet, changed, press }) {
    Object.assign(this, { about, changed, chosen: [], forms: new Map() });
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
    return this.chosen.map((spec) => this.forms.get(spec)?.spec ?? spec);
  }

  set({ net, methods, fill }) {
    choose(byId("net"), net);
    choose(byId("fill"), fill);
    this.forms.clear();
    this.chosen = methods.slice(0, this.most).map((spec) => this.named(spec));
    this.draw();
  }

  /** List only the methods that fit the net, and drop the others. */
  async fit() {
    const { net } = this;
    const { methods } = await get("api/methods", { net });
    if (net !== this.net) return;
    this.fits = new Set(methods);
    const left = this.chosen.filter((name) => this.fits.has(name) || !this.about.methods.some((one) => one.name === name));
    this.chosen = left.length ? left : [this.about.default.methods, methods].flat().filter((name) => this.fits.has(name)).slice(0, 1);
    this.draw();
    this.changed();
  }

  /** The name under which a spec is listed; its settings go to the form. */
  named(spec) {
    const { methods } = this.about;
    const method = methods.find(({ name }) => name === spec) ?? methods.find(({ base }) => base === spec.split(":")[0]);
    const form = method ? SettingsForm.of(method, spec, method.name, () => this.altered()) : null;
    if (!form) return spec;
    this.forms.set(method.name, form);
    return method.name;
  }

  altered() {
    this.summarise();
    this.changed();
  }

  press(name) {
    const full = this.chosen.length >= this.most && !this.chosen.includes(name);
    byId("run-words").textContent = full ? `At most ${this.most} methods: first press another one to remove it.` : "";
    if (full) return;
    this.chosen = this.chosen.includes(name) ? this.chosen.filter((one) => one !== name) : [...this.chosen, this.named(name)];
    this.draw();
    this.altered();
    byId("methods").querySelector(`[data-method="${CSS.escape(name)}"]`)?.focus();
  }

  draw() {
    const unfit = (name) => this.fits && !this.fits.has(name) && !this.chosen.includes(name);
    const listed = this.about.methods.filter(({ name }) => !unfit(name));
    const unlisted = this.chosen.filter((spec) => !listed.some(({ name }) => name === spec)).map((name) => ({ name, family: "", recommended: name, about: "" }));
    const own = listed.filter(({ family }) => family === "Of this server");
    const first = [...own, ...unlisted, ...listed.filter(({ recommended }) => recommended).slice(0, FIRST)];
    const others = Map.groupBy(listed.filter((one) => !first.includes(one)), ({ family }) => family);
    const open = byId("more-methods")?.open;
    const more = make("details", { id: "more-methods" }, make("summary", {}, "more methods"),
      ...[...others].map(([family, members]) => make("div", { role: "group", "aria-label": family }, make("p", { class: "soft" }, family), this.chips(members))));
    more.open = open ?? false;
    byId("methods").replaceChildren(byId("methods").querySelector("legend"), this.chips(first), ...(others.size ? [more] : []),
      ...this.chosen.map((name) => this.described(name)).filter(Boolean));
    this.summarise();
  }

  chips(methods) {
    return make("p", { class: "chips" }, ...methods.map(({ name, about, recommended }) => {
      const button = make("button", { type: "button", class: "chip", "data-method": name, title: recommended && recommended !== name ? `${about}: ${recommended}` : about, "aria-pressed": String(this.chosen.includes(name)) }, name);
      button.addEventListener("click", () => this.press(name));
      return button;
    }));
  }

  /** What a chosen method is, and its settings. */
  described(name) {
    const method = this.about.methods.find((one) => one.name === name);
    if (!method) return null;
    const free = method.label_free ? " One map for all labels." : "";
    const form = method.settings.length ? this.forms.get(name) : null;
    return make("div", { class: "method" },
      make("p", { class: "soft about-method" }, make("b", {}, name), ` ${method.about}. Passes of the ${NET}: ${method.passes}.${free}`), ...(form ? [form.node] : []));
  }

  summarise() {
    byId("settings-words").textContent = `${this.methods.join(", ") || "no method"} · ${this.net} · hidden ${POSITIONS}: ${this.fill}`;
  }
}
