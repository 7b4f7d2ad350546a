// A proof chosen by hand: words or columns that are pressed.

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
      this.set(place, 1 - this.mask[place]);
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

  draw({ positions, words }) {
    this.nodes = [];
    const dress = (node, k) => {
      for (const [name, value] of Object.entries({ role: "button", tabindex: 0, "data-place": k })) node.setAttribute(name, value);
      this.nodes.push(node);
    };
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
    this.mark = 1 - this.mask[place];
    event.target.releasePointerCapture?.(event.pointerId); // so that a finger, too, can go on to the next one
    this.set(place, this.mark);
    this.after();
  }

  /** The pointer goes on while it is down: what it comes to gets the same mark. */
  drag(event) {
    const place = this.placeOf(event);
    if (this.mark === null || this.mark === undefined || place === null || !event.buttons || this.mask[place] === this.mark) return;
    this.set(place, this.mark);
    this.after();
  }

  set(place, mark) {
    this.mask[place] = mark;
  }

  after() {
    this.nodes.forEach((node, k) => {
      node.setAttribute("aria-pressed", String(Boolean(this.mask[k])));
      node.classList.toggle("chosen", Boolean(this.mask[k]));
    });
    super.after();
  }
}
