// The proofs of a job: a row for each method, a column for each label. Each is cut where it reaches the belief, until the slider moves them all.

import { get } from "./api.js";
import { drawHeat, heatLegend, ProofCell } from "./cell.js";
import { ranked, ranksOf, resized } from "./pixels.js";
import { byId, bytesOf, inPercent, interpolated, make, number, pictureCanvas } from "./shared.js";
import { counted, percent, POSITION, POSITIONS, shortPercent, UNBELIEVED } from "./sentences.js";

const PLAYED = 6000; // milliseconds from nothing to all

/** One label by one method: the mask while it is learned, then the proof. A subclass draws: `waiting` makes what stands there at first,
 * `learn` shows the ranks of an unfinished mask, `place` a finished proof, and `reveal` the share of the positions that is shown.
 */
export class Cell {
  constructor(proofs, method, label) {
    Object.assign(this, { proofs, method, label, ranks: null, scores: null });
    this.name = `${proofs.request.methods[method]} for ${label.name}`;
    this.reading = make("span", { class: "reading-off" }, "waiting …");
    this.body = make("div", { class: "drawn" }, this.waiting());
    this.node = make("figure", { class: "cell", "data-method": method, "data-label": label.label },
      make("figcaption", {}, make("h3", { title: label.name }, label.name),
        make("p", { class: "under" }, make("span", { class: "soft", title: `f = ${number(label.f)}` }, label.wrong || label.f < UNBELIEVED ? "a wrong one" : `believed ${inPercent(label.f)}`), this.reading)),
      this.body);
  }

  /** The finished map with its curve. */
  scored(scores) {
    this.scores = scores;
    this.ranks = ranksOf(scores.order, scores.width * scores.height);
    this.place();
  }

  /** Show a mask that is being learned. */
  live(event) {
    if (this.scores) return;
    this.learn(ranked(this.sized(event)));
    this.reading.textContent = `step ${event.step} of ${event.steps}`;
  }

  sized({ data }) {
    return bytesOf(data);
  }

  /** The share of the positions that is shown. */
  get share() {
    return this.proofs.moved ? this.proofs.share : this.scores.cut;
  }

  /** The label's probability at a share of the positions. */
  at(share) {
    const { shares, f } = this.scores.insertion;
    return share >= 1 ? this.scores.belief : interpolated(shares, f, share);
  }

  /** Follow the slider. */
  show() {
    if (!this.scores) return;
    this.reveal(this.share);
    this.reading.replaceChildren(...(this.proofs.moved ? [`${this.proofs.wordsFor(this.share)}: `, make("b", {}, shortPercent(this.at(this.share)))] : []));
  }
}

/** The cell of a photo. */
export class PhotoCell extends Cell {
  waiting() {
    this.canvas = pictureCanvas(this.proofs.photo.size, "heat waiting", `Map of ${this.name}`);
    return this.canvas;
  }

  sized({ width, height, data }) {
    return resized(bytesOf(data), { width, height }, this.proofs.photo.size);
  }

  map(ranks) {
    const { image, size } = this.proofs.photo;
    return { photo: image, ...size, appears: Float32Array.from(ranks, (rank) => (rank + 1) / ranks.length) };
  }

  learn(ranks) {
    this.canvas.classList.remove("waiting");
    drawHeat(this.canvas, this.map(ranks));
  }

  place() {
    const { insertion: { shares, f }, signed, map } = this.scores;
    this.drawn = new ProofCell({
      name: this.name, map: this.map(this.ranks), facts: this.scores, curve: { shares, values: f }, hidden: this.proofs.photo.hidden,
      values: signed ? bytesOf(map) : null, choose: (share) => this.proofs.choose(share),
    });
    this.body.replaceChildren(this.drawn.node);
  }

  reveal(share) {
    this.drawn.show({ share: Math.round(share * this.ranks.length) / this.ranks.length, mode: this.proofs.view });
  }
}

/** All maps of one job, and the slider. */
export class Proofs {
  /** `Shown` is the class of cells; `each`: the slider has a step for each position. */
  constructor(Shown, each = false) {
    Object.assign(this, { Shown, each, cells: [], moved: false });
    byId("share").addEventListener("input", () => this.move());
    byId("play").addEventListener("click", () => (this.playing ? this.stop() : this.play()));
    byId("each-own").addEventListener("click", () => {
      this.stop();
      this.moved = false;
      this.follow();
    });
    for (const radio of document.querySelectorAll("[name=view]")) radio.addEventListener("change", () => this.follow());
    addEventListener("resize", () => this.follow());
    byId("theme").addEventListener("click", () => this.follow());
  }

  get share() {
    return Number(byId("share").value) / this.steps;
  }

  /** Steps of the slider. */
  get steps() {
    return Number(byId("share").max);
  }

  /** How pictures are drawn: proof, heat or seen. */
  get view() {
    return document.querySelector("[name=view]:checked")?.value ?? "proof";
  }

  /** A share of the positions in words. */
  wordsFor(share) {
    return this.each ? counted(Math.round(share * this.photo.count), POSITION, POSITIONS) : `at ${percent(share)}`;
  }

  /** Make empty cells for all maps of a request. `photo` has `image`, `size` and `hidden`, or what a list needs; labels have name and f. */
  begin(job, request, labels, photo) {
    this.stop();
    Object.assign(this, { job, request, labels, photo, moved: false });
    byId("share").max = this.each ? photo.count : 200;
    byId("share").value = 0;
    this.cells = request.methods.map((_, method) => labels.map((label) => new this.Shown(this, method, label)));
    byId("rows").replaceChildren(...this.cells.map((cells, method) => make("section", { class: "row by-method", "aria-label": request.methods[method] },
      make("h2", {}, request.methods[method]),
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

  /** Set the slider to a share of the positions. */
  choose(share) {
    byId("share").value = Math.round(share * this.steps);
    this.move();
  }

  move() {
    this.moved = true;
    this.follow();
  }

  follow() {
    if (!this.photo) return;
    const first = this.scored[0];
    if (!this.moved && first) byId("share").value = Math.round(first.scores.cut * this.steps);
    const n = this.photo.count;
    const count = Math.round(this.share * n);
    const shown = this.each ? "" : `${percent(this.share)} · `;
    const words = this.moved ? `${shown}${count.toLocaleString("en")} of ${n.toLocaleString("en")} ${POSITIONS}` : "each where it reaches the belief";
    byId("share-words").textContent = words;
    byId("share").setAttribute("aria-valuetext", words);
    byId("each-own").hidden = !this.moved;
    byId("bands").hidden = this.view !== "heat";
    if (this.view === "heat") this.drawLegend();
    this.frame ??= requestAnimationFrame(() => {
      this.frame = undefined;
      for (const cell of this.cells.flat()) cell.show();
    });
  }

  drawLegend() {
    const ends = make("i", { class: "colour-bar diverging", role: "img", "aria-label": "blue, against the label, through white, zero, to orange, for the label" });
    byId("bands").replaceChildren(heatLegend(POSITIONS),
      ...(this.scored.some(({ scores }) => scores.signed) ? [make("p", { class: "legend", id: "signed-legend" }, make("b", {}, "Signed maps"), " against the label ", ends, " for the label")] : []));
  }

  /** Move the slider from nothing to all; in ten steps if the visitor prefers reduced motion. */
  play() {
    const from = !this.moved || byId("share").value >= this.steps ? 0 : Number(byId("share").value);
    const begun = performance.now();
    const coarse = matchMedia("(prefers-reduced-motion: reduce)").matches ? Math.ceil(this.steps / 10) : 1;
    byId("play").textContent = "Pause";
    const move = (now) => {
      const step = from + (this.steps * (now - begun)) / PLAYED;
      byId("share").value = Math.min(this.steps, Math.floor(step / coarse) * coarse);
      this.move();
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
