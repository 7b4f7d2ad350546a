// "The idea, by hand": four steps on one photo, from results that were computed once (idea.json, made by docs/idea_by_hand.py).

import { bars } from "./labels.js";
import { composite, pixelsOf } from "./pixels.js";
import { percent } from "./sentences.js";
import { byId, Curve, inPercent, make, packed, pictureCanvas, proofGlyph } from "./shared.js";

async function decoded(kind, text) {
  const image = new Image();
  image.src = `data:image/${kind};base64,${text}`;
  await image.decode();
  return image;
}

/** One proof: what the net is shown, the curve, and what it says. */
class Proof {
  constructor(data, photo, proof, appears) {
    const { name, f } = data.labels[proof.label];
    Object.assign(this, { data, photo, proof, appears, name, f });
    this.canvas = pictureCanvas(photo.size, "kept", `What the net is shown of the proof of ${name} by ${proof.method}`);
    this.said = make("p", { class: "says" });
    const shares = proof.curve.map((_, k) => k / data.steps);
    const top = Math.max(...data.proofs.flatMap(({ curve }) => curve));
    this.curve = new Curve(shares, proof.curve, { end: 1, top, f, words: `What the net says while pixels appear, ${proof.method} for ${name}` });
    this.node = make("figure", { class: "cell" }, make("figcaption", {}, make("h3", {}, `${name}, by ${proof.method}`)), this.canvas, this.curve.node, this.said);
  }

  show(step) {
    composite(this.canvas, this.photo, (i) => this.appears[i] < step);
    const p = this.proof.curve[step];
    this.curve.mark(step / this.data.steps, p);
    this.said.replaceChildren("The net says ", make("em", {}, this.name), " ", make("b", {}, inPercent(p)), `; about the whole photo ${inPercent(this.f)}.`);
  }
}

/** A slider that moves some proofs. */
function setUpStep(number, proofs) {
  const slider = byId(`share-${number}`);
  byId(`cells-${number}`).append(...proofs.map(({ node }) => node));
  const move = () => {
    byId(`words-${number}`).textContent = percent(Number(slider.value) / 100);
    for (const proof of proofs) proof.show(Number(slider.value));
  };
  slider.addEventListener("input", move);
  move();
}

async function start() {
  const data = await (await fetch("static/idea.json")).json();
  const [image, ...maps] = await Promise.all([decoded("jpeg", data.photo), ...data.proofs.map(({ appears }) => decoded("png", appears))]);
  const size = { width: data.size, height: data.size };
  const photo = { image, size, view: pixelsOf(image, size), fill: new Uint32Array(data.size ** 2).fill(packed(data.gray)) };
  byId("photo").getContext("2d").drawImage(image, 0, 0);
  bars(byId("idea-bars"), data.labels.map(({ name, f }, label) => ({ label, name, f })));
  const proofs = data.proofs.map((proof, k) => new Proof(data, photo, proof, pixelsOf(maps[k], size).map((pixel) => pixel & 255)));
  setUpStep(2, proofs.filter(({ proof }) => proof.label === 0 && proof.method === "belief-mask"));
  setUpStep(3, proofs.filter(({ proof }) => proof.label === 1));
  const tooMuch = proofs.filter(({ proof }) => proof.label === 1 && proof.strength === "strong");
  byId("unsound").textContent = tooMuch.map(({ proof, name, f }) =>
    `${proof.method} makes the net say ${name} up to ${inPercent(proof.peak)}, although it believes ${inPercent(f)}: it proves too much.`).join(" ");
  byId("verdicts").append(...proofs.map(({ proof, name, f }) =>
    make("figure", { class: "cell" }, make("figcaption", {}, make("h3", {}, `${name}, by ${proof.method}`)), proofGlyph({ ...proof, f }))));
  document.documentElement.dataset.ready = "true";
}

start();
