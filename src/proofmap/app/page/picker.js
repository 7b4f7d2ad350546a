// A proof chosen by hand: words, columns or parts of a line that are pressed.

import { SeriesLine } from "./lines.js";
import { textNode } from "./listed.js";
import { ITEM } from "./sentences.js";
import { byId, make } from "./shared.js";
import { UndoableMask } from "./undo.js";

export class Picker extends UndoableMask {
  /** `changed` is called after each change of the mask. */
  constructor(changed) {
    super(changed);
    this.nodes = [];
    const board = byId("picker");
    board.addEventListener("pointerdown", (event) => this.press(event));
    board.addEventListener("pointerover", (event) => this.drag(event));
    addEventListener("pointerup", () => { this.mark = null; });
    board.addEventListener("keydown", (event) => {
      const place = this.placeOf(event);
      if (place === null || ![" ", "Enter"].includes(event.key)) return;
      event.preventDefault();
      this.remember();
      this.set(place, 1 - this.markAt(place));
      this.after();
    });
  }

  /** The positions to choose from; `keep` keeps what is chosen. */
  load(photo, keep = false) {
    if (!keep || this.mask.length !== photo.count) this.start(photo.count);
    if (this.photo !== photo) this.draw(photo);
    this.photo = photo;
    this.after();
  }

  /** Make a node the one that is pressed for place k. */
  dress(node, k) {
    for (const [name, value] of Object.entries({ role: "button", tabindex: 0, "data-place": k })) node.setAttribute(name, value);
    this.nodes.push(node);
  }

  draw({ positions, words }) {
    this.nodes = [];
    const dress = (node, k) => this.dress(node, k);
    if (ITEM === "text") {
      byId("picker").replaceChildren(textNode(words, { class: "words" }, dress));
      return;
    }
    byId("picker").replaceChildren(...positions.map(({ name, value }, k) => {
      const node = make("span", { class: "column" }, make("span", { class: "name" }, name), make("b", {}, value));
      dress(node, k);
      return node;
    }));
  }

  placeOf({ target }) {
    const node = target.closest("[data-place]");
    return node ? Number(node.dataset.place) : null;
  }

  press(event) {
    const place = this.placeOf(event);
    if (place === null || event.button !== 0) return;
    this.remember();
    this.mark = 1 - this.markAt(place);
    event.target.releasePointerCapture?.(event.pointerId); // so that a finger, too, can go on to the next one
    this.set(place, this.mark);
    this.after();
  }

  /** The pointer goes on while it is down: what it comes to gets the same mark. */
  drag(event) {
    const place = this.placeOf(event);
    if (this.mark === null || this.mark === undefined || place === null || !event.buttons || this.markAt(place) === this.mark) return;
    this.set(place, this.mark);
    this.after();
  }

  set(place, mark) {
    this.mask[place] = mark;
  }

  markAt(place) {
    return this.mask[place];
  }

  after() {
    this.nodes.forEach((node, k) => {
      node.setAttribute("aria-pressed", String(Boolean(this.markAt(k))));
      node.classList.toggle("chosen", Boolean(this.markAt(k)));
    });
    super.after();
  }
}

/** Parts of a line that are pressed. A place is a band of the drawing; it has several positions if these are more than the columns. One
 * band takes part in the order of the Tab key; arrows go to the next one.
 */
export class LinePicker extends Picker {
  constructor(changed) {
    super(changed);
    byId("picker").addEventListener("keydown", (event) => {
      const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      const next = by && this.nodes[(this.placeOf(event) ?? 0) + by];
      if (!next) return;
      event.preventDefault();
      for (const node of this.nodes) node.setAttribute("tabindex", node === next ? 0 : -1);
      next.focus();
    });
  }

  draw({ positions, drawing, count }) {
    this.line = new SeriesLine(drawing, count, "The series, whose parts can be pressed");
    this.line.node.setAttribute("role", "group");
    this.nodes = [];
    this.line.backs.forEach((back, k) => {
      const { first, end } = this.line.bands[k];
      const name = positions[first].name + (end - first > 1 ? ` and ${end - first - 1} more` : "");
      this.dress(back, k);
      back.setAttribute("tabindex", k ? -1 : 0);
      back.setAttribute("aria-label", name);
      back.append(make("svg:title", {}, positions[first].value ? `${name}: ${positions[first].value}` : name));
    });
    this.line.node.classList.toggle("fine", this.nodes.length > 60); // without edges, which would cover the line
    byId("picker").replaceChildren(this.line.node);
  }

  set(place, mark) {
    const { first, end } = this.line.bands[place];
    this.mask.fill(mark, first, end);
  }

  markAt(place) {
    return this.mask[this.line.bands[place].first];
  }

  after() {
    super.after();
    this.line?.show((position) => this.mask[position]);
  }
}
