// The maps of a job: a row for each method, a column for each label, all moved by one slider.

import { get } from "./api.js";
import { composite, ranked, ranksOf, resized } from "./pixels.js";
import {
  byId, bytesOf, Curve, DIVERGING, grayUnderHeat, heatColour, INFERNO, inPercent, interpolated, make, number, packed, paintOver, pictureCanvas, proofGlyph,
} from "./shared.js";
import { counted, ITEM, percent, POSITIONS, UNBELIEVED, WRONG } from "./sentences.js";

const PLAYED = 6000; // milliseconds from nothing to all

/** One label by one method: the current map, its top positions, and, once scored, the curve. A subclass draws the map: `parts` makes
 * what stands below the label's name, `paint` shows a map, `finish` a scored one, and `reveal` the positions that the slider shows.
 */
export class Cell {
  constructor(proofs, method, label) {
    Object.assign(this, { proofs, method, label, ranks: null, scores: null });
    this.curve = make("div", { class: "curve" });
    this.reading = make("p", { class: "reading-off" }, "waiting …");
    this.verdict = make("p");
    this.node = make("figure", { class: "cell", "data-method": method, "data-label": label.label },
      make("figcaption", {}, make("h4", {}, label.name),
        make("span", { class: "soft", title: `f = ${number(label.f)}` }, label.f < UNBELIEVED ? WRONG : `believed ${inPercent(label.f)}`)),
      ...this.parts(proofs.request.methods[method]), make("div", { class: "facts-of" }, this.curve, this.reading, this.verdict));
  }

  /** The finished map with its curves. */
  scored(scores) {
    this.scores = scores;
    this.ranks = ranksOf(scores.order, scores.width * scores.height);
    this.finish(bytesOf(scores.map));
    const glyph = proofGlyph({ ...scores, average: scores.area }, { whole: `whole ${ITEM}`, positions: POSITIONS });
    this.verdict.replaceWith(glyph);
    this.verdict = glyph;
  }

  /** Show a mask that is being learned. */
  live(event) {
    if (this.scores) return;
    const map = this.sized(event);
    this.step = `step ${event.step.toLocaleString("en")} of ${event.steps.toLocaleString("en")}`;
    this.paint(map, false);
    this.ranks = ranked(map);
    this.show();
  }

  sized({ data }) {
    return bytesOf(data);
  }

  finish(map) {
    this.paint(map, this.scores.signed);
  }

  drawCurve(game, top) {
    const { shares, f } = this.scores[game];
    const words = `${game} curve of ${this.proofs.request.methods[this.method]} for ${this.label.name}, f ${number(this.label.f)}`;
    this.drawn = new Curve(shares, f, { end: 1, top, f: this.label.f, words });
    this.curve.replaceWith(this.drawn.node);
    this.curve = this.drawn.node;
  }

  /** Follow the slider. */
  show() {
    if (!this.ranks) return;
    const { share, game } = this.proofs;
    const count = Math.round(share * this.ranks.length);
    this.reveal(game === "insertion" ? (rank) => rank < count : (rank) => rank >= count);
    if (!this.scores) {
      this.reading.textContent = this.step;
      return;
    }
    const whole = share === (game === "insertion" ? 1 : 0);
    const p = whole ? this.scores.f : interpolated(this.scores[game].shares, this.scores[game].f, share);
    this.drawn.mark(share, p);
    this.reading.replaceChildren(`${this.proofs.shareWords}: `, make("b", {}, inPercent(p)));
  }
}

/** The cell of a photo: the heat map, and the pixels that are shown. */
export class PhotoCell extends Cell {
  parts(name) {
    const { size } = this.proofs.photo;
    this.heat = pictureCanvas(size, "heat waiting", `Map of ${name} for ${this.label.name}`);
    this.kept = pictureCanvas(size, "kept waiting", `The part of the photo that the map of ${name} for ${this.label.name} shows`);
    return [this.heat, this.kept];
  }

  sized({ width, height, data }) {
    return resized(bytesOf(data), { width, height }, this.proofs.photo.size);
  }

  paint(map, signed) {
    const stops = signed ? DIVERGING : INFERNO;
    const colours = Uint32Array.from({ length: 256 }, (_, value) => packed(heatColour(value / 255, stops)));
    this.heat.classList.remove("waiting");
    paintOver(this.heat, this.proofs.photo.image, (pixels) => map.forEach((value, i) => { pixels[i] = colours[value]; }), grayUnderHeat);
  }

  reveal(shown) {
    this.kept.classList.remove("waiting");
    composite(this.kept, this.proofs.photo, (i) => shown(this.ranks[i]));
  }
}

/** All maps of one job, and the slider. */
export class Proofs {
  /** `Shown` is the class of cells; `each`: the slider has a step for each position. */
  constructor(Shown, each = false) {
    Object.assign(this, { Shown, each, cells: [] });
    byId("share").addEventListener("input", () => this.follow());
    byId("play").addEventListener("click", () => (this.playing ? this.stop() : this.play()));
    for (const radio of document.querySelectorAll("[name=game]")) {
      radio.addEventListener("change", () => {
        this.drawCurves();
        this.follow();
      });
    }
  }

  get share() {
    return Number(byId("share").value) / this.steps;
  }

  /** Steps of the slider. */
  get steps() {
    return Number(byId("share").max);
  }

  /** What the slider shows, in words. */
  get shareWords() {
    return this.each ? counted(Math.round(this.share * this.photo.count), POSITIONS.replace(/s$/, ""), POSITIONS) : `at ${percent(this.share)}`;
  }

  get game() {
    return document.querySelector("[name=game]:checked").value;
  }

  /** Make empty cells for all maps of a request. `photo` has `image`, `size`, `view` and `fill`; labels have name and f. */
  begin(job, request, labels, photo) {
    Object.assign(this, { job, request, labels, photo });
    if (this.each && this.steps !== photo.count) {
      byId("share").max = photo.count;
      byId("share").value = Math.ceil(photo.count / 5);
    }
    byId("signed-legend").hidden = true;
    this.cells = request.methods.map((_, method) => labels.map((label) => new this.Shown(this, method, label)));
    byId("rows").replaceChildren(...this.cells.map((cells, method) => make("section", { class: "row by-method", "aria-label": request.methods[method] },
      make("header", {}, make("h4", {}, request.methods[method])),
      make("div", { class: "cells", tabindex: "0", role: "group", "aria-label": `Labels by ${request.methods[method]}` }, ...cells.map(({ node }) => node)))));
    this.follow();
  }

  /** Show an event of the job. */
  async hear(event) {
    const cell = this.cells[event.method]?.find(({ label }) => label.label === event.label);
    if (event.kind === "map") cell?.live(event);
    if (event.kind !== "scored" || !cell) return;
    const { job } = this;
    const scores = await get(`api/jobs/${job}/maps/${event.method}/${event.label}`);
    if (job !== this.job) return;
    cell.scored(scores);
    if (scores.signed) byId("signed-legend").hidden = false;
    this.drawCurves();
    this.follow();
  }

  /** The ranks of a finished map's pixels, or null. */
  ranks(method, label) {
    const cell = this.scored.find((one) => one.method === method && one.label.label === label);
    return cell?.ranks ?? null;
  }

  /** Called when the job ended without these maps. */
  giveUp() {
    for (const cell of this.cells.flat()) if (!cell.scores) cell.reading.textContent = "not finished";
  }

  get scored() {
    return this.cells.flat().filter(({ scores }) => scores);
  }

  /** Draw all curves on one scale, because labels are side by side. */
  drawCurves() {
    const top = Math.max(1e-6, ...this.scored.flatMap((cell) => [cell.label.f ?? 0, ...cell.scores[this.game].f]));
    for (const cell of this.scored) cell.drawCurve(this.game, top);
  }

  follow() {
    if (!this.photo) return;
    const n = this.photo.count;
    const count = Math.round(this.share * n);
    const shown = this.each ? "" : `${percent(this.share)} · `;
    byId("share-name").textContent = `${POSITIONS[0].toUpperCase()}${POSITIONS.slice(1)} ${this.game === "insertion" ? "shown" : "hidden"}`;
    byId("share-words").textContent = `${shown}${count.toLocaleString("en")} of ${n.toLocaleString("en")} ${POSITIONS}`;
    byId("share").setAttribute("aria-valuetext", `${percent(this.share)}, ${count} of ${n} ${POSITIONS}`);
    this.frame ??= requestAnimationFrame(() => {
      this.frame = undefined;
      for (const cell of this.cells.flat()) cell.show();
    });
  }

  /** Move the slider from nothing to all; in ten steps if the visitor prefers reduced motion. */
  play() {
    const from = byId("share").value >= this.steps ? 0 : Number(byId("share").value);
    const begun = performance.now();
    const coarse = matchMedia("(prefers-reduced-motion: reduce)").matches ? Math.ceil(this.steps / 10) : 1;
    byId("play").textContent = "Stop";
    const move = (now) => {
      const step = from + (this.steps * (now - begun)) / PLAYED;
      byId("share").value = Math.min(this.steps, Math.floor(step / coarse) * coarse);
      this.follow();
      if (step < this.steps) this.playing = requestAnimationFrame(move);
      else this.stop();
    };
    this.playing = requestAnimationFrame(move);
  }

  stop() {
    cancelAnimationFrame(this.playing);
    this.playing = null;
    byId("play").textContent = "Play";
  }
}
