// A mask that is chosen by hand, step by step, and can be undone. The page has one button to undo and one to clear.

import { byId } from "./shared.js";

const UNDONE = 50; // steps that can be undone

export class UndoableMask {
  /** `changed` is called after each change of the mask. */
  constructor(changed) {
    this.changed = changed;
    this.start(0);
    byId("undo").addEventListener("click", () => this.undo());
    byId("clear").addEventListener("click", () => this.replace(new Uint8Array(this.mask.length)));
  }

  /** An empty mask of this many marks, with nothing to undo. */
  start(count) {
    this.mask = new Uint8Array(count);
    this.past = [];
  }

  remember() {
    this.past = [...this.past.slice(1 - UNDONE), this.mask.slice()];
  }

  undo() {
    if (!this.past.length) return;
    this.mask = this.past.pop();
    this.after();
  }

  /** Choose exactly these marks; undo returns to the ones before. */
  replace(mask) {
    this.remember();
    this.mask = mask;
    this.after();
  }

  /** A subclass draws the mask and calls this. */
  after() {
    byId("undo").disabled = !this.past.length;
    byId("clear").disabled = !this.mask.includes(1);
    this.changed();
  }
}
