// Rows, series and texts: chosen or typed; sent to the server; drawn as lists of columns, as lines and as words.

import { get, post, Subject } from "./api.js";
import { proofWords } from "./cell.js";
import { channelLegend, SeriesLine } from "./lines.js";
import { RankedColumns, shadedText, shadeWord, ShownText, textNode } from "./listed.js";
import { LinePicker, Picker } from "./picker.js";
import { Cell } from "./proofs.js";
import { asSentence, counted, ITEM, ITEMS } from "./sentences.js";
import { byId, bytesOf, Curve, make } from "./shared.js";

const LEARNED = 0.2; // the share of an unfinished map that is coloured
const LISTED = 10; // rows, series or texts of one list

/** A row, series or text; its source is the text, or its place in the data. */
class Item extends Subject {
  constructor({ photo, name, truth = "" }, source) {
    super(photo, source);
    this.name = truth ? `${name} (true label: ${truth})` : name;
  }

  static async sent(source) {
    const asked = source.text === undefined ? { index: source.index } : { text: source.text };
    return new Item(await post("api/items", asked), source);
  }
}

/** The positions of an item as a net divides it: columns with values, times with the drawing of a series, or words. */
async function placed(item, { net }) {
  const { positions, drawing } = await item.kept(() => get(`api/photos/${item.id}/positions`, { net }));
  return { of: item, positions, drawing, words: positions.map(({ name }) => name), count: positions.length };
}

function shown({ words, drawing, count }) {
  if (ITEM === "text") byId("text").value = words.join("");
  if (ITEM !== "series") return;
  const line = new SeriesLine(drawing, count, "The series as the model sees it");
  byId("view").replaceChildren(line.node, ...[channelLegend(drawing)].filter(Boolean));
}

/** What the model was shown, with a caption. */
function part({ positions, words, drawing, count }, name, kept) {
  if (ITEM === "series") {
    const line = new SeriesLine(drawing, count, `What the model sees of the proof: ${name}`);
    line.show(kept);
    return make("figure", {}, line.node, make("figcaption", {}, name));
  }
  if (ITEM === "text") {
    const text = new ShownText(words);
    text.show(kept);
    return make("figure", {}, text.node, make("figcaption", {}, name));
  }
  const named = positions.filter((_, k) => kept(k)).map((one) => make("li", {}, `${one.name} = ${one.value}`));
  return make("figure", {}, make("figcaption", {}, name), named.length ? make("ul", { class: "plain-list" }, ...named) : make("p", { class: "soft" }, "nothing"));
}

// ---- cells ---------------------------------------------------------------------------------------------------------

/** A cell whose positions have names; only those of the proof are coloured. `draw` makes the drawing of a finished map. */
class ListedCell extends Cell {
  /** What the drawing of a finished map needs. */
  get drawing() {
    const { scores } = this;
    return { ...scores, order: [...this.ranks], along: scores.insertion.f, f: this.label.f, heat: bytesOf(scores.map) };
  }

  place() {
    const { insertion: { shares, f }, numbers, strength } = this.scores;
    this.line = new Curve(shares, f, { end: 1, top: 1, f: this.label.f, words: `Curve of ${this.name}: ${numbers}`, choose: (share) => this.proofs.choose(share) });
    this.body.replaceChildren(this.draw(), make("div", { class: `proof-cell ${strength}-proof` }, this.line.node, proofWords(this.scores)));
  }

  reveal(share) {
    const count = Math.round(share * this.ranks.length);
    this.line.mark(share, this.at(share));
    this.showShown((rank) => rank < count);
  }
}

/** The cell of a row: its columns in the order of the map. */
class RowCell extends ListedCell {
  waiting() {
    return make("div", { class: "ranked-columns waiting" });
  }

  learn() {} // columns are listed when the map is finished

  draw() {
    this.columns = new RankedColumns(this.proofs.photo.positions, this.drawing);
    return this.columns.node;
  }

  showShown(shownPlace) {
    this.columns.show(shownPlace);
  }
}

/** The cell of a text: the words of the proof shaded by the map, and the words that are shown. */
class TextCell extends ListedCell {
  waiting() {
    this.heat = textNode(this.proofs.photo.words, { class: "words heat" }, () => {});
    return this.heat;
  }

  learn(ranks) {
    this.heat.querySelectorAll(".word").forEach((word, k) => shadeWord(word, ranks[k] < LEARNED * ranks.length ? 160 : 0, false));
  }

  draw() {
    this.kept = new ShownText(this.proofs.photo.words);
    return make("div", { class: "texts" }, shadedText(this.proofs.photo.words, this.drawing), this.kept.node);
  }

  showShown(shownRank) {
    this.kept.show((k) => shownRank(this.ranks[k]));
  }
}

/** The cell of a series: its line, the proof marked, and hidden parts faint. */
class SeriesCell extends ListedCell {
  waiting() {
    const { drawing, count } = this.proofs.photo;
    this.series = new SeriesLine(drawing, count, `Map of ${this.name} behind the line`);
    return this.series.node;
  }

  learn(ranks) {
    this.series.prove(ranks, Math.round(LEARNED * ranks.length), "unknown");
  }

  draw() {
    const { order, enough, strength } = this.drawing;
    this.series.prove(order, enough, strength);
    return this.series.node;
  }

  showShown(shownRank) {
    this.series.show((position) => shownRank(this.ranks[position]));
  }
}

// ---- choosing ------------------------------------------------------------------------------------------------------

/** The list of rows, series or texts of the data. */
class List {
  constructor(about, took, refused) {
    Object.assign(this, { data: about.data, took, refused, first: 0 });
    byId("before").addEventListener("click", () => this.move(-LISTED));
    byId("after").addEventListener("click", () => this.move(LISTED));
    byId("find")?.addEventListener("input", () => {
      this.first = 0;
      this.refresh();
    });
    this.refresh();
  }

  move(by) {
    this.first = Math.max(0, this.first + by);
    this.refresh();
  }

  async refresh() {
    byId("sample-part").hidden = !this.data;
    if (!this.data) return;
    const asked = this.asked = {};
    try {
      const answer = await get("api/data", { first: this.first, number: LISTED, search: byId("find")?.value ?? "" });
      if (asked === this.asked) this.draw(answer);
    } catch (problem) {
      this.refused(asSentence(problem.message));
    }
  }

  draw({ name, total, columns, found, items }) {
    const truths = items.some(({ truth }) => truth);
    byId("data-words").textContent = `${name}: ${counted(total, ITEM, ITEMS)}`;
    const last = this.first + items.length;
    byId("list-words").textContent = found ? `${this.first + 1} to ${last} of ${found.toLocaleString("en")}` : `No ${ITEM} has such a name.`;
    byId("before").disabled = !this.first;
    byId("after").disabled = last >= found;
    const head = make("tr", {}, make("th", { scope: "col" }, ITEM), ...columns.map((column) => make("th", { scope: "col" }, column)),
      ...(truths ? [make("th", { scope: "col" }, "true label")] : []));
    byId("list").replaceChildren(make("table", {}, make("thead", {}, head), make("tbody", {}, ...items.map((item) => {
      const button = make("button", { type: "button", class: "pick" }, item.name);
      const line = make("tr", {}, make("th", { scope: "row" }, button), ...item.cells.map((cell) => make("td", { dir: "auto" }, cell)), ...(truths ? [make("td", {}, item.truth)] : []));
      line.addEventListener("click", () => this.took({ index: item.index }));
      return line;
    }))));
  }
}

/** Set up the field of texts. */
function setUpText(about, took) {
  byId("text").maxLength = about.limits.characters;
  byId("drop").addEventListener("submit", (event) => {
    event.preventDefault();
    took({ text: byId("text").value });
  });
}

/** Set up all ways to choose a row, a series or a text. */
function setUp(about, took, refused) {
  new List(about, took, refused);
  if (ITEM === "text") setUpText(about, took);
}

const CELLS = { row: RowCell, series: SeriesCell, text: TextCell };

/** What the page needs to be about rows, series or texts. */
export const listKind = { Sent: Item, setUp, placed, shown, part, Cell: CELLS[ITEM], Board: ITEM === "series" ? LinePicker : Picker, each: true };
