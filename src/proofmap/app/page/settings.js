// The settings of a method as a form, generated from what the server says about them.

import { make } from "./shared.js";

/** Split a text at commas outside brackets. */
function splitOutside(text) {
  const parts = [""];
  let depth = 0;
  for (const letter of text) {
    if (letter === "," && !depth) parts.push("");
    else parts[parts.length - 1] += letter;
    depth += { "(": 1, ")": -1 }[letter] ?? 0;
  }
  return parts.filter(Boolean);
}

/** The settings in a spec by name; null if it cannot be read as `base:name=value,...` with names that the method has. */
export function settingsIn({ name, base, settings }, spec) {
  if (spec === name || spec === base) return {};
  if (!spec.startsWith(`${base}:`)) return null;
  const pairs = splitOutside(spec.slice(base.length + 1)).map((part) => [part.slice(0, part.indexOf("=")).trim().replaceAll("-", "_"), part.slice(part.indexOf("=") + 1).trim()]);
  return pairs.every(([key]) => settings.some((one) => one.name === key)) ? Object.fromEntries(pairs) : null;
}

/** A spec with the settings that differ from their defaults; those that a spec must have are written with the others. */
export function specOf({ name, base, settings }, values) {
  const changed = settings.filter(({ name: key, default: usual }) => values[key] !== undefined && values[key] !== usual);
  if (!changed.length) return name;
  return `${base}:${settings.filter((one) => one.required || changed.includes(one)).map(({ name: key, default: usual }) => `${key}=${values[key] ?? usual}`).join(",")}`;
}

export class SettingsForm {
  /** The form of a method's settings, filled from a spec; null if the spec has other forms of settings. */
  static of(method, spec, which, changed) {
    const values = settingsIn(method, spec);
    return values && new SettingsForm(method, spec, values, which, changed);
  }

  constructor(method, spec, values, which, changed) {
    Object.assign(this, { method, values, spec });
    this.summary = make("summary");
    this.node = make("details", { class: "settings" }, this.summary,
      make("div", { class: "fields" }, ...method.settings.map((setting) => this.field(setting, which, changed))));
    this.count();
  }

  field(setting, which, changed) {
    const { name, help, default: usual, choices } = setting;
    const id = `${which}-${name}`.toLowerCase().replaceAll(/\W+/g, "-");
    const input = choices.length
      ? make("select", { id }, ...choices.map((value) => make("option", { value }, value || "none")))
      : make("input", { id, placeholder: usual, autocomplete: "off", spellcheck: "false" });
    const given = this.values[name] ?? (choices.length ? usual : "");
    if (choices.length && ![...input.options].some(({ value }) => value === given)) input.append(make("option", { value: given }, given));
    input.value = given;
    const words = make("span", { class: "soft", id: `${id}-help` }, `${help}. ${usual === "" ? "" : `Default ${usual}`}`);
    input.setAttribute("aria-describedby", words.id);
    input.addEventListener("input", () => {
      const value = input.value.trim();
      if (value === "" || value === usual) delete this.values[name];
      else this.values[name] = value;
      this.spec = specOf(this.method, this.values);
      this.count();
      changed();
    });
    return make("div", { class: "field" }, make("label", { for: id }, name.replaceAll("_", " ")), input, words);
  }

  count() {
    const n = Object.entries(this.values).filter(([key, value]) => value !== this.method.settings.find(({ name }) => name === key).default).length;
    this.summary.textContent = n ? `Settings (${n} changed)` : "Settings";
  }
}
