// The visitor against a method: what the net says about the painted part, and about the method's proof of the same size.

import { post } from "./api.js";
import { bars } from "./labels.js";
import { bitsOf, lettersOf } from "./pixels.js";
import { byId, inPercent, make } from "./shared.js";
import { counted, ITEM, percent, POSITION, POSITIONS, shortPercent, verdict } from "./sentences.js";

const YOURS = ITEM === "photo" ? "your patch" : "your proof";
const PAUSE = 100; // milliseconds after a stroke

export class Duel {
  /** `failed` is called with errors; `Board` is what the visitor paints on, and `part` draws what the net was shown. */
  constructor(failed, Board, part) {
    Object.assign(this, { failed, part });
    this.labels = [];
    this.answer = null;
    this.easel = new Board(() => this.ask());
    byId("target").addEventListener("change", () => this.show());
    byId("start").addEventListener("click", () => this.startFromMap());
  }

  /** Offer the finished maps to start from, those of the first label first. */
  offerMaps() {
    const kept = byId("start-map").value;
    const maps = this.proofs?.scored ?? [];
    byId("start-map").replaceChildren(...maps.map(({ method, label }, place) =>
      make("option", { value: place }, this.methods.length > 1 ? `${label.name}, ${this.methods[method]}` : label.name)));
    if (kept && kept < maps.length) byId("start-map").value = kept;
    byId("start-part").hidden = !maps.length;
  }

  /** Show the top pixels of a map, as many as its picture shows. */
  startFromMap() {
    const cell = this.proofs.scored[Number(byId("start-map").value)];
    if (!cell) return;
    const count = Math.round(cell.share * cell.ranks.length);
    byId("target").value = cell.label.label;
    this.easel.replace(Uint8Array.from(cell.ranks, (rank) => Number(rank < count)));
  }

  /** Start on a photo with these labels, against the maps of a job if there is one. */
  begin(source, photo, { net, fill, labels, job, methods, searching, proofs }) {
    const keep = this.source === source && this.net === net;
    const target = keep ? Number(byId("target").value) : null;
    Object.assign(this, { source, photo, net, fill, labels, job, methods, searching, proofs });
    byId("target").replaceChildren(...labels.map(({ label, name }) => make("option", { value: label }, name)));
    if (labels.some(({ label }) => label === target)) byId("target").value = target;
    if (!keep) {
      this.answer = null;
      byId("painted").hidden = true;
    }
    this.offerMaps();
    this.easel.load(photo, keep);
  }

  /** Ask soon; while a request is under way, only the newest one waits. */
  ask() {
    this.newer = true;
    this.timer ??= setTimeout(() => this.askNow(), PAUSE);
  }

  async askNow() {
    try {
      while (this.newer) {
        this.newer = false;
        const { source, photo } = this;
        const mask = this.easel.mask.slice();
        const answer = await source.kept(() => post("api/paint", {
          photo: source.id, net: this.net, fill: this.fill, mask: lettersOf(bitsOf(mask)),
          labels: this.labels.map(({ label }) => label), ...(this.job ? { job: this.job } : {}),
        }));
        if (photo !== this.photo) continue;
        this.answer = { ...answer, mask };
        this.show();
      }
    } catch (problem) {
      this.failed(problem);
    } finally {
      this.timer = undefined;
    }
  }

  /** The best of the methods' proofs of a label, or null. */
  machine(label) {
    const all = this.answer.machine.filter((proof) => proof.label === label && proof.f !== null);
    return all.length ? all.reduce((best, proof) => (proof.f > best.f ? proof : best)) : null;
  }

  /** Both proofs as the net sees them. */
  showPair(machine, method) {
    const { mask, share } = this.answer;
    const count = Math.round(share * mask.length);
    const ranks = machine && this.proofs.ranks(machine.method, machine.label);
    byId("pair").replaceChildren(
      this.part(this.photo, YOURS, (i) => mask[i]),
      ...(ranks ? [this.part(this.photo, method, (i) => ranks[i] < count)] : []));
  }

  show() {
    if (!this.answer) return;
    const { share, labels } = this.answer;
    const label = Number(byId("target").value);
    const target = labels.find((one) => one.label === label);
    if (!target) return; // it was chosen after the request; the next answer has it
    const machine = this.machine(label);
    const method = machine ? this.methods[machine.method] : "the method";
    const n = this.easel.mask.length;
    const { searching } = this;
    byId("duel").textContent = verdict({ leader: labels[0], target, machine: machine?.f ?? null, method, share, searching });
    byId("painted").hidden = share === 0;
    byId("sides-name").textContent = target.name;
    byId("painted-share").textContent = `You show ${percent(share)}: ${Math.round(share * n).toLocaleString("en")} of ${counted(n, POSITION, POSITIONS)}.`;
    byId("sides").replaceChildren(
      side(YOURS, target.f), ...(machine ? [side(`${method}, as many ${POSITIONS}`, machine.f)] : []), side(`the whole ${ITEM}`, target.whole));
    this.showPair(machine, method);
    const note = ({ whole }) => `whole ${ITEM} ${inPercent(whole)}`;
    bars(byId("painted-bars"), labels, { marked: new Set([label]), note });
  }
}

/** One of the compared numbers, with its bar. */
function side(name, f) {
  const bar = make("span", { class: "bar" });
  bar.style.setProperty("--f", f ?? 0);
  return make("p", {}, make("span", { class: "name" }, name), make("b", {}, shortPercent(f)), bar);
}
