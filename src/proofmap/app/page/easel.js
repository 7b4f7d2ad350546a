// The easel: a mask painted with the pointer or the keyboard.

import { scratch, byId } from "./shared.js";
import { UndoableMask } from "./undo.js";

const FAINT = 0.22; // opacity of hidden parts
const MOVES = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

export class Easel extends UndoableMask {
  constructor(changed) {
    super(changed);
    this.canvas = byId("canvas");
    this.context = this.canvas.getContext("2d");
    this.setUpPointer();
    this.setUpKeys();
    byId("faint").addEventListener("input", () => this.draw());
    byId("size").addEventListener("input", () => this.resize(0));
  }

  /** A photo to paint on, with `size`, `view` and `fill`; `keep` keeps the painted mask and the place of the brush. */
  load(photo, keep = false) {
    this.photo = photo;
    const { width, height } = photo.size;
    this.zoom = Math.max(1, Math.round(672 / Math.max(width, height)));
    this.canvas.width = width * this.zoom;
    this.canvas.height = height * this.zoom;
    if (!keep) {
      this.start(width * height);
      this.place = [width / 2, height / 2];
    }
    this.resize(0);
    this.after();
  }

  get share() {
    return this.mask.reduce((sum, mark) => sum + mark, 0) / this.mask.length;
  }

  get erasing() {
    return document.querySelector("[name=tool]:checked").value === "erase";
  }

  /** The radius in pixels of the net; the tool's size is its diameter if the photo's longer side is 200. */
  get radius() {
    return (Number(byId("size").value) / 200) * Math.max(this.photo.size.width, this.photo.size.height) / 2 + 0.5;
  }

  setUpPointer() {
    const at = (event) => {
      const box = this.canvas.getBoundingClientRect();
      return [((event.clientX - box.left) / box.width) * this.photo.size.width, ((event.clientY - box.top) / box.height) * this.photo.size.height];
    };
    this.canvas.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      this.canvas.setPointerCapture(event.pointerId);
      this.remember();
      this.place = at(event);
      this.painting = true;
      this.stroke(this.place, this.place);
    });
    this.canvas.addEventListener("pointermove", (event) => {
      const from = this.place;
      this.place = at(event);
      if (this.painting) this.stroke(from, this.place);
      else this.draw();
    });
    for (const end of ["pointerup", "pointercancel"]) this.canvas.addEventListener(end, () => { this.painting = false; });
    for (const kind of ["pointerenter", "pointerleave", "focus", "blur"]) {
      this.canvas.addEventListener(kind, () => {
        this.near = kind === "pointerenter" || kind === "focus" || document.activeElement === this.canvas && kind !== "blur";
        this.draw();
      });
    }
  }

  /** Arrows move the brush; space paints, and while held down paints along the way. */
  setUpKeys() {
    this.canvas.addEventListener("keydown", (event) => {
      if (event.metaKey || event.altKey || (event.ctrlKey && event.key !== "z")) return;
      const move = MOVES[event.key];
      if (move) this.move(move, event.shiftKey ? 1 : Math.max(1, Math.round(this.radius / 2)));
      else if (event.key === " ") {
        if (!event.repeat) this.remember();
        this.held = true;
        this.stroke(this.place, this.place);
      } else if (event.key === "e" || event.key === "E") this.switchTool();
      else if (event.key === "+" || event.key === "-") this.resize(event.key === "+" ? 2 : -2);
      else if (event.key === "z" || event.key === "Z") this.undo();
      else return;
      event.preventDefault();
    });
    this.canvas.addEventListener("keyup", (event) => { if (event.key === " ") this.held = false; });
    this.canvas.addEventListener("blur", () => { this.held = false; });
  }

  move([right, down], far) {
    const { width, height } = this.photo.size;
    const from = this.place;
    const inside = (value, most) => Math.min(Math.max(value, 0), most);
    this.place = [inside(from[0] + right * far, width), inside(from[1] + down * far, height)];
    if (this.held) this.stroke(from, this.place);
    else this.draw();
    const where = (value, most) => `${Math.round((100 * value) / most)} %`;
    byId("brush-place").textContent = `${where(this.place[0], width)} from the left, ${where(this.place[1], height)} from the top`;
  }

  switchTool() {
    document.querySelector(`[name=tool][value=${this.erasing ? "brush" : "erase"}]`).checked = true;
    this.draw();
  }

  resize(by) {
    byId("size").value = Number(byId("size").value) + by;
    byId("size-words").textContent = `${Math.round(2 * this.radius)} pixels`;
    this.draw();
  }

  /** Mark all pixels whose centre is within the radius of the line between two places. */
  stroke([x0, y0], [x1, y1]) {
    const { width, height } = this.photo.size;
    const mark = this.erasing ? 0 : 1;
    const { radius } = this;
    const [dx, dy] = [x1 - x0, y1 - y0];
    const length = dx * dx + dy * dy || 1;
    const range = (a, b, most) => [Math.max(0, Math.floor(Math.min(a, b) - radius)), Math.min(most, Math.ceil(Math.max(a, b) + radius))];
    const [left, right] = range(x0, x1, width);
    const [top, bottom] = range(y0, y1, height);
    for (let y = top; y < bottom; y++) {
      for (let x = left; x < right; x++) {
        const along = Math.min(1, Math.max(0, ((x + 0.5 - x0) * dx + (y + 0.5 - y0) * dy) / length));
        if (Math.hypot(x + 0.5 - x0 - along * dx, y + 0.5 - y0 - along * dy) <= radius) this.mask[y * width + x] = mark;
      }
    }
    this.after();
  }

  after() {
    this.draw();
    super.after();
  }

  draw() {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = undefined;
      this.paint();
    });
  }

  /** The net's view: the photo where it is marked, the fill elsewhere; if chosen, with the hidden parts drawn faintly. */
  paint() {
    if (!this.photo) return;
    const { view, fill, size, image } = this.photo;
    const { context, canvas } = this;
    const parts = [scratch(size, "painted"), scratch(size, "hidden")];
    for (let i = 0; i < this.mask.length; i++) {
      parts[0].pixels[i] = this.mask[i] ? view[i] : 0;
      parts[1].pixels[i] = fill[i];
    }
    for (const part of parts) part.context.putImageData(part.data, 0, 0);
    context.imageSmoothingEnabled = false;
    context.drawImage(parts[1].canvas, 0, 0, canvas.width, canvas.height);
    if (byId("faint").checked) {
      context.globalAlpha = FAINT;
      context.drawImage(image, 0, 0, canvas.width, canvas.height);
      context.globalAlpha = 1;
    }
    context.drawImage(parts[0].canvas, 0, 0, canvas.width, canvas.height);
    if (this.near) this.drawBrush();
  }

  drawBrush() {
    const { context, zoom } = this;
    context.beginPath();
    context.arc(this.place[0] * zoom, this.place[1] * zoom, this.radius * zoom, 0, 2 * Math.PI);
    for (const [width, colour] of [[5, "#000"], [2, this.erasing ? "#ffab70" : "#fff"]]) {
      context.lineWidth = width;
      context.strokeStyle = colour;
      context.stroke();
    }
  }
}
