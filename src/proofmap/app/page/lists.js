// Rows, series and texts: chosen or typed; sent to the server; drawn as lists of columns, as lines and as words.

import { get, post, Subject } from "./api.js";
import { channelLegend, SeriesLine } from "./lines.js";
import { RankedColumns, shadedText, shadeWord, ShownText, textNode } from "./listed.js";
import { LinePicker, Picker } from "./picker.js";
import { Cell } from "./proofs.js";
import { asSentence, counted, ITEM, ITEMS } from "./sentences.js";
import { byId, make } from "./shared.js";

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

/** What the drawings of a finished map need. */
const drawn = (cell) => ({ ...cell.scores, order: [...cell.ranks], along: cell.scores.insertion.f, f: cell.label.f });

/** The cell of a row: its columns in the order of the map. */
class RowCell extends Cell {
  parts() {
    this.list = make("div", { class: "ranked-columns waiting" });
    return [this.list];
  }

  paint() {} // columns are listed when the map is finished

  finish() {
    this.columns = new RankedColumns(this.proofs.photo.positions, drawn(this));
    this.list.replaceWith(this.columns.node);
  }

  reveal(shownPlace) {
    this.columns?.show(shownPlace);
  }
}

/** The cell of a text: the words shaded by the map, and the words that are shown. */
class TextCell extends Cell {
  parts() {
    const { words } = this.proofs.photo;
    this.heat = textNode(words, { class: "words heat" }, () => {});
    this.kept = new ShownText(words);
    return [make("div", { class: "texts" }, this.heat, this.kept.node)];
  }

  paint(map, signed) {
    this.heat.querySelectorAll(".word").forEach((word, k) => shadeWord(word, map[k], signed));
  }

  finish(map) {
    const node = shadedText(this.proofs.photo.words, { ...drawn(this), heat: map });
    this.heat.replaceWith(node);
    this.heat = node;
  }

  reveal(shownRank) {
    this.kept.show((k) => shownRank(this.ranks[k]));
  }
}

/** The cell of a series: its line, the map behind it, the proof marked, and hidden parts faint. */
class SeriesCell extends Cell {
  parts(name) {
    const { drawing, count } = this.proofs.photo;
    this.line = new SeriesLine(drawing, count, `Map of ${name} for ${this.label.name} behind the line`);
    return [this.line.node];
  }

  paint(map, signed) {
    this.line.shade(map, signed);
  }

  finish(map) {
    const { signed, enough, strength } = this.scores;
    this.paint(map, signed);
    this.line.prove(this.ranks, enough, strength);
  }

  reveal(shownRank) {
    this.line.show((position) => shownRank(this.ranks[position]));
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
