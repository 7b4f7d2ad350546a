// What the net believes, as bars that choose labels, and the search for other labels.

import { get } from "./api.js";
import { shortPercent, UNBELIEVED, WRONG } from "./sentences.js";
import { byId, inPercent, make, number } from "./shared.js";

/** A list of labels with bars as long as f. With `press`, each is a button that is pressed or not; `note` says more about a label, and
 * `more`, if it makes one, is another button below it.
 */
export function bars(list, labels, { pressed = new Set(), press = null, marked = new Set(), note = () => "", more = () => null } = {}) {
  const focused = document.activeElement?.dataset?.label;
  list.replaceChildren(...labels.map((one) => {
    const { label, name, f } = one;
    const inside = [make("span", { class: "name", title: name }, name), make("b", { title: `f = ${number(f)}` }, shortPercent(f)), make("span", { class: "bar" })];
    inside[2].style.setProperty("--f", f ?? 0);
    const words = note(one);
    if (words) inside.push(make("span", { class: "note" }, words));
    if (!press) return make("li", { class: marked.has(label) ? "marked" : null }, ...inside);
    const button = make("button", { type: "button", "data-label": label, "aria-pressed": String(pressed.has(label)) }, ...inside);
    button.addEventListener("click", () => press(label));
    return make("li", {}, button, ...[more(one)].filter(Boolean));
  }));
  if (press && focused !== undefined) list.querySelector(`[data-label="${focused}"]`)?.focus();
}

/** The labels to prove: some of the most probable ones, and others from the search. */
export class Labels {
  /** `changed` is called with a message if a label cannot be chosen, `failed` with errors of the server, `showPart` with the suggestion whose
   * part of the photo is to be shown, or null.
   */
  constructor(about, { changed, failed, showPart }) {
    this.most = about.limits.labels;
    this.first = about.default.labels;
    this.changed = changed;
    this.shown = [];
    this.chosen = new Set();
    this.notes = this.parts = new Map();
    this.showPart = showPart;
    this.search = new Search((label) => this.add(label).catch(failed), failed);
  }

  /** Show beliefs; choose the most probable labels that are believed, and wrong ones, unless labels are given. */
  show({ labels, wrong = [], total = Infinity }, given = null) {
    document.querySelector(".search").hidden = labels.length >= total;
    const believed = labels.filter(({ f }, place) => place === 0 || f >= UNBELIEVED).slice(0, this.first);
    this.notes = new Map(wrong.map(({ label }) => [label, WRONG]));
    this.parts = new Map();
    this.part = null;
    this.showPart(null);
    this.shown = [...labels.filter(({ label }) => !this.notes.has(label)), ...wrong.map((one) => ({ ...one, wrong: true }))];
    this.chosen = new Set(given ?? [...believed, ...wrong].map(({ label }) => label).slice(0, this.most));
    this.draw();
  }

  /** Labels that the net sees in a part of the photo; they are shown, not chosen. */
  suggest(found) {
    for (const one of found) {
      this.parts.set(one.label, one);
      if (!this.shown.some(({ label }) => label === one.label)) this.shown.push(one);
    }
    this.draw();
  }

  /** The button that shows the part in which the net sees a label. */
  partButton({ label }) {
    const seen = this.parts.get(label);
    if (!seen) return null;
    const button = make("button", { type: "button", class: "show-part" },
      `${inPercent(seen.part)} in a part: ${this.part === seen ? "hide it" : "show me which part"}`);
    button.addEventListener("click", () => {
      this.part = this.part === seen ? null : seen;
      this.draw();
      this.showPart(this.part);
      byId("bars").querySelector(`[data-label="${label}"] + .show-part`).focus();
    });
    return button;
  }

  /** The chosen labels, most probable first. */
  get list() {
    return this.shown.filter(({ label }) => this.chosen.has(label)).sort((a, b) => b.f - a.f);
  }

  press(label) {
    if (this.chosen.has(label)) this.chosen.delete(label);
    else if (this.chosen.size < this.most) this.chosen.add(label);
    else return this.changed(`At most ${this.most} labels: first press another one to remove it.`);
    this.draw();
    return this.changed("");
  }

  /** Add a label from the search; `this.ask` gets its f. */
  async add({ label }) {
    if (!this.shown.some((known) => known.label === label)) this.shown = [...this.shown, await this.ask(label)];
    if (!this.chosen.has(label)) this.press(label);
  }

  draw() {
    const note = ({ label, f }) => this.notes.get(label) ?? (f < UNBELIEVED && this.chosen.has(label) ? WRONG : "");
    bars(byId("bars"), this.shown, { pressed: this.chosen, press: (label) => this.press(label), note, more: (one) => this.partButton(one) });
  }
}

/** A field with suggestions (the combobox of ARIA): type, arrows, Enter. */
class Search {
  constructor(choose, failed) {
    this.field = byId("search");
    this.list = byId("found");
    this.choose = choose;
    this.found = [];
    this.at = -1;
    this.asked = 0;
    this.field.addEventListener("input", () => this.look().catch(failed));
    this.field.addEventListener("keydown", (event) => this.key(event));
    this.field.addEventListener("blur", () => this.close());
    this.list.addEventListener("pointerdown", (event) => {
      event.preventDefault(); // the field keeps the focus
      const option = event.target.closest("[role=option]");
      if (option) this.take(Number(option.dataset.place));
    });
  }

  async look() {
    const text = this.field.value.trim();
    const asked = ++this.asked;
    const found = text ? (await get("api/labels", { net: this.net, search: text, photo: this.photo })).labels : [];
    if (asked !== this.asked) return; // a newer request is under way
    this.found = found;
    this.at = found.length ? 0 : -1;
    this.draw(text);
  }

  draw(text) {
    const none = text && !this.found.length;
    this.list.replaceChildren(
      ...this.found.map(({ name, f }, place) => make("li", {
        role: "option", id: `found-${place}`, "data-place": place, "aria-selected": String(place === this.at),
      }, make("span", { class: "name" }, name), make("b", {}, inPercent(f)))),
      ...(none ? [make("li", { role: "option", "aria-disabled": "true", "aria-selected": "false" }, "The net has no such label")] : []));
    this.list.hidden = !text;
    this.field.setAttribute("aria-expanded", String(!this.list.hidden));
    if (this.at >= 0) this.field.setAttribute("aria-activedescendant", `found-${this.at}`);
    else this.field.removeAttribute("aria-activedescendant");
    this.list.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" });
  }

  key(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && this.found.length) {
      event.preventDefault();
      this.at = (this.at + step + this.found.length) % this.found.length;
      this.draw(this.field.value.trim());
    } else if (event.key === "Enter") {
      event.preventDefault();
      if (this.at >= 0) this.take(this.at);
    } else if (event.key === "Escape") this.close();
  }

  take(place) {
    const label = this.found[place];
    this.field.value = "";
    this.close();
    if (label) this.choose(label);
  }

  close() {
    this.asked++;
    this.found = [];
    this.at = -1;
    this.draw("");
  }
}
