// Rows and texts, drawn: words shaded by a map and shown one by one, and columns in the order of a map with the belief after each.
// Shared by the report and the page of `proofmap serve`. The report has all scripts in one, so it leaves out the import.

import { DIVERGING, heatColour, inPercent, make, verdictColour } from "./shared.js";

/** A text with one element for each word; `dress` is called with each element and the number of its word. */
function textNode(words, attributes, dress) {
  return make("p", { dir: "auto", ...attributes }, ...words.flatMap((word, k) => {
    const bare = word.trimEnd();
    const node = make("span", { class: "word" }, bare);
    dress(node, k);
    return [node, word.slice(bare.length)];
  }));
}

/** Shade one word by the value 0..255 of a map; of a signed map 128 is zero. */
function shadeWord(node, value, signed) {
  const share = value / 255;
  if (!signed) node.style.setProperty("--h", share.toFixed(3));
  else if (Math.abs(share - 0.5) > 0.01) {
    node.classList.add("signed");
    node.style.background = `rgb(${heatColour(0.5 + (share - 0.5) * 0.44, DIVERGING).join(" ")})`;
  }
}

/** A text shaded by a finished map: `heat` 0..255 and `order`, the place in the map, of each word, `along` the belief with 0, 1, ... words
 * shown, `enough` how many give the belief. Those are underlined in the colour of the verdict.
 */
function shadedText(words, { heat, order, along, enough, strength, signed }) {
  const node = textNode(words, { class: "words heat" }, (word, k) => {
    shadeWord(word, heat[k], signed);
    if (order[k] < enough) word.classList.add("proves");
    word.title = `number ${order[k] + 1} of the map; with it ${inPercent(along[order[k] + 1])}`;
  });
  node.style.setProperty("--verdict", verdictColour(strength));
  return node;
}

/** A text of which some words are shown. */
class ShownText {
  constructor(words) {
    this.spans = [];
    this.node = textNode(words, { class: "words kept" }, (word) => this.spans.push(word));
  }

  show(shown) {
    this.spans.forEach((span, k) => span.classList.toggle("unseen-word", !shown(k)));
  }
}

/** The columns of a row in the order of a map. Each has its value, and a bar: the belief while it and those above are shown.
 *
 * `positions` have name and value, and may have a short name; `order`, `along`, `enough` and `strength` are as in shadedText, `f` is the belief in the whole row.
 * The first ones are shown; a press shows all.
 */
class RankedColumns {
  constructor(positions, { order, along, enough, strength, f }, most = 10) {
    const best = order.map((place, k) => [place, k]).sort(([a], [b]) => a - b).map(([, k]) => k);
    this.lines = best.map((k, place) => this.line(positions[k], along[place + 1], place < enough));
    const first = Math.min(Math.max(most, enough + 2), 2 * most);
    const rest = best.length > first + 1 ? this.lines.slice(first) : [];
    for (const line of rest) line.hidden = true;
    const more = make("button", { type: "button", class: "more-columns" }, `and ${rest.length} more`);
    more.addEventListener("click", () => {
      for (const line of rest) line.hidden = false;
      more.remove();
    });
    this.node = make("div", { class: "ranked-columns" },
      make("ol", {}, this.line({ name: "nothing shown", value: "" }, along[0], false), ...this.lines), ...(rest.length ? [more] : []));
    this.node.style.setProperty("--f", f ?? 0);
    this.node.style.setProperty("--verdict", verdictColour(strength));
  }

  line({ name, short, value }, p, proves) {
    const bar = make("span", { class: "probability", title: `with it ${inPercent(p)}` });
    bar.style.setProperty("--p", p ?? 0);
    return make("li", { class: proves ? "proves" : null },
      make("span", { class: "name", title: name, dir: "auto" }, short ?? name), make("span", { class: "value", title: value }, value), bar);
  }

  /** Show the columns whose place in the map is `shown`. */
  show(shown) {
    this.lines.forEach((line, place) => line.classList.toggle("unshown", !shown(place)));
  }
}

export { textNode, shadeWord, shadedText, ShownText, RankedColumns };
