// One photo and two methods, from results that were computed once (idea.json, made by docs/idea_by_hand.py): the demonstration on the first
// page, and the page "The idea, by hand" with four steps.

import { ProofCell } from "./cell.js";
import { bars } from "./labels.js";
import { pixelsOf } from "./pixels.js";
import { percent } from "./sentences.js";
import { byId, inPercent, interpolated, make } from "./shared.js";

async function decoded(kind, text) {
  const image = new Image();
  image.src = `data:image/${kind};base64,${text}`;
  await image.decode();
  return image;
}

/** The name of a method as people write it. */
const written = (method) => ({ "grad-cam": "Grad-CAM" })[method] ?? method;

/** One proof: the picture, the curve, and what the net says. */
class Proof {
  constructor(data, photo, proof, appears) {
    const { name, f } = data.labels[proof.label];
    Object.assign(this, { ...proof, name, f, title: `${written(proof.method)}, asked for ${name}` });
    this.shares = proof.curve.map((_, k) => k / data.steps);
    const map = { photo, width: data.size, height: data.size, appears: Float32Array.from(appears, (step) => (step + 1) / data.steps) };
    this.cell = new ProofCell({ name: this.title, map, facts: proof, curve: { shares: this.shares, values: proof.curve }, hidden: data.gray });
    this.said = make("p", { class: "says" });
    this.node = make("figure", { class: "cell", "data-label": proof.label, "data-method": proof.method },
      make("figcaption", {}, make("h3", {}, this.title)), this.cell.node, this.said);
  }

  show(share) {
    const p = interpolated(this.shares, this.curve, share);
    this.cell.show({ share });
    this.said.className = `says ${p > Math.max(1.25 * this.f, 0.05) ? "strong-proof" : ""}`;
    this.said.replaceChildren(`These ${percent(share)} of the pixels: `, make("b", {}, `${this.name} ${inPercent(p)}`), `. The whole photo: ${inPercent(this.f)}.`);
  }
}

/** What two methods gave for two labels of one photo. */
async function loaded() {
  const data = await (await fetch("static/idea.json")).json();
  const [photo, ...maps] = await Promise.all([decoded("jpeg", data.photo), ...data.proofs.map(({ appears }) => decoded("png", appears))]);
  const size = { width: data.size, height: data.size };
  const proofs = data.proofs.map((proof, k) => new Proof(data, photo, proof, Uint8Array.from(pixelsOf(maps[k], size), (pixel) => pixel & 255)));
  return { data, photo, proofs };
}

/** A slider that moves some proofs; `words` is written beside it. */
function setUpSlider(slider, words, proofs) {
  const move = () => {
    words.textContent = percent(Number(slider.value) / 100);
    for (const proof of proofs) proof.show(Number(slider.value) / 100);
  };
  slider.addEventListener("input", move);
  addEventListener("resize", move);
  byId("theme").addEventListener("click", move);
  move();
}

/** Sentences about proofs of a label that the net hardly believes. */
function judged(proofs) {
  return proofs.map(({ method, name, f, peak, strength }) => (strength === "strong"
    ? `${written(method)} makes the net say ${name} up to ${inPercent(peak)}, although it believes ${inPercent(f)}: it proves too much.`
    : `No part of ${written(method)}'s proof makes the net say more than ${inPercent(peak)}.`)).join(" ");
}

/** The demonstration on the first page: two methods are asked for the label that the net hardly believes. */
export class Demonstration {
  constructor({ data, photo, proofs }) {
    const wrong = proofs.filter(({ label }) => label === 1);
    this.node = byId("demo");
    byId("demo-label").textContent = wrong[0].name;
    const whole = make("figure", { class: "cell" }, make("figcaption", {}, make("h3", {}, "The photo")),
      make("img", { src: photo.src, alt: "A rocket at its launch pad", class: "view" }), make("ul", { class: "bars plain" }));
    bars(whole.querySelector("ul"), data.labels.map(({ name, f }, label) => ({ label, name, f })));
    byId("demo-cells").append(whole, ...wrong.map(({ node }) => node));
    setUpSlider(byId("demo-share"), byId("demo-words"), wrong);
    byId("demo-verdict").textContent = judged(wrong);
  }

  static async shown() {
    return new Demonstration(await loaded());
  }
}

/** The page with four steps. */
async function start() {
  const { data, photo, proofs } = await loaded();
  byId("photo").getContext("2d").drawImage(photo, 0, 0);
  bars(byId("idea-bars"), data.labels.map(({ name, f }, label) => ({ label, name, f })));
  for (const [step, shown] of [[2, proofs.filter(({ label, method }) => label === 0 && method === "belief-mask")], [3, proofs.filter(({ label }) => label === 1)]]) {
    byId(`cells-${step}`).append(...shown.map(({ node }) => node));
    setUpSlider(byId(`share-${step}`), byId(`words-${step}`), shown);
  }
  byId("unsound").textContent = judged(proofs.filter(({ label }) => label === 1));
  byId("verdicts").append(...proofs.map(({ title, words, numbers, strength }) =>
    make("li", { class: `${strength}-proof` }, make("b", {}, title), ` ${numbers}: `, make("b", { class: "one-word" }, words))));
  document.documentElement.dataset.ready = "true";
}

if (byId("idea-bars")) start();
