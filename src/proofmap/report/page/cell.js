// The picture of one proof, for the report and the page of `proofmap serve`: the photo inside the outline of the part that is shown, a pale
// ghost outside, the curve, three numbers and one word. The report has all scripts in one, so it leaves out the import.
//
// A map travels as `appears`: for each pixel of the picture, row by row, the share of the positions at which it appears. The pixels of
// the share s are exactly those with appears <= s; the pixel of rank r among n appears at (r + .5) / n. Only outlines are smoothed, by a window of some pixels, so that specks have none.

import { Curve, DIVERGING, heatColour, inPercent, interpolated, make, packed, scratch } from "./shared.js";

/** The bands of a heat map: the first 5, 10, 20 and 40 % of the positions, each with a colour and its opacity; the rest is left as it is. */
const BANDS = [
  { to: 0.05, colour: [249, 178, 36], alpha: 0.85 }, { to: 0.1, colour: [232, 116, 43], alpha: 0.65 },
  { to: 0.2, colour: [190, 62, 82], alpha: 0.45 }, { to: 0.4, colour: [120, 40, 110], alpha: 0.25 },
];

const OUTLINE = 1.8; // pixels of the page
const HAIRLINE = 0.6;
const MOST_OUTLINED = 0.1; // of the pixels
const ROUNDING = 1e-6;

/** The canvas that pixels of one picture are prepared on, with its pixels as numbers; `put(i)` is the colour of pixel i, packed. */
function prepared({ width, height }, purpose, put) {
  const one = scratch({ width, height }, purpose);
  for (let i = 0; i < one.pixels.length; i++) one.pixels[i] = put(i);
  one.context.putImageData(one.data, 0, 0);
  return one.canvas;
}

/** The pixels of the photo as bytes, four each. */
function bytesOfPhoto({ photo, width, height }) {
  const { context } = scratch({ width, height }, "photo");
  context.clearRect(0, 0, width, height);
  context.drawImage(photo, 0, 0, width, height);
  return context.getImageData(0, 0, width, height).data;
}

const grayOf = (bytes, i) => 0.299 * bytes[4 * i] + 0.587 * bytes[4 * i + 1] + 0.114 * bytes[4 * i + 2];

/** The photo, as large as the canvas; small photos keep their pixels. */
function drawWhole(canvas, { photo, width, height }) {
  const context = canvas.getContext("2d");
  context.imageSmoothingEnabled = Math.max(width, height) > 112;
  context.imageSmoothingQuality = "high";
  context.drawImage(photo, 0, 0, canvas.width, canvas.height);
  return context;
}

/** How many pixels of the map a canvas shows per pixel of the page, so that lines have one width on all screens. */
const pagePixel = (canvas) => canvas.width / (canvas.clientWidth || canvas.width);

/** The share of a window around each pixel that is shown at `share`: 0 to 1; outlines run where it is a half. */
function coverage({ appears, width, height }, share) {
  const reach = Math.round(Math.max(width, height) / 112);
  let field = Float32Array.from(appears, (at) => (at <= share + ROUNDING ? 1 : 0));
  if (!reach) return field;
  for (const [step, length, stride, lines] of [[1, width, width, height], [width, height, 1, width]]) {
    const blurred = new Float32Array(field.length);
    for (let line = 0; line < lines; line++) {
      const start = line * stride;
      const at = (k) => field[start + Math.min(Math.max(k, 0), length - 1) * step];
      let sum = 0;
      for (let k = -reach; k <= reach; k++) sum += at(k);
      for (let k = 0; k < length; k++) {
        blurred[start + k * step] = sum / (2 * reach + 1);
        sum += at(k + reach + 1) - at(k - reach);
      }
    }
    field = blurred;
  }
  return field;
}

/** The outline of a field where it is a half, as a path in the pixels of the map (marching squares, between the middles of pixels). A map of
 * specks has none, because its outlines would hide the picture.
 */
function outlineOf(field, { width, height }) {
  const path = new Path2D();
  let pieces = 0;
  const cut = (a, b) => (0.5 - a) / (b - a);
  for (let y = -1; y < height; y++) {
    const above = Math.max(y, 0) * width;
    const below = Math.min(y + 1, height - 1) * width;
    for (let x = -1; x < width; x++) {
      const [left, right] = [Math.max(x, 0), Math.min(x + 1, width - 1)];
      const a = field[above + left], b = field[above + right], c = field[below + right], d = field[below + left];
      const [inA, inB, inC, inD] = [a >= 0.5, b >= 0.5, c >= 0.5, d >= 0.5];
      if (inA === inB && inB === inC && inC === inD) continue;
      const crossings = [];
      if (inA !== inB) crossings.push([x + 0.5 + cut(a, b), y + 0.5]);
      if (inB !== inC) crossings.push([x + 1.5, y + 0.5 + cut(b, c)]);
      if (inD !== inC) crossings.push([x + 0.5 + cut(d, c), y + 1.5]);
      if (inA !== inD) crossings.push([x + 0.5, y + 0.5 + cut(a, d)]);
      for (let k = 0; k + 1 < crossings.length; k += 2) {
        path.moveTo(...crossings[k]);
        path.lineTo(...crossings[k + 1]);
        pieces += 1;
      }
    }
  }
  return pieces > MOST_OUTLINED * width * height ? new Path2D() : path;
}

/** Draw the outline of one share on the canvas. */
function strokeShare(canvas, map, share, colour, width) {
  const context = canvas.getContext("2d");
  const scale = canvas.width / map.width;
  context.save();
  context.scale(scale, canvas.height / map.height);
  context.lineWidth = (width * pagePixel(canvas)) / scale;
  [context.lineCap, context.lineJoin, context.strokeStyle] = ["round", "round", colour];
  context.stroke(outlineOf(coverage(map, share), map));
  context.restore();
}

/** Draw a proof: the photo in colour where it is shown at `share`, a pale ghost elsewhere, an outline, and hairlines at a half and a quarter.
 *
 * `map` has the picture `photo`, `width` and `height` of the map in pixels, and `appears`. The canvas may be larger than the map.
 */
function drawProof(canvas, map, { share, colour }) {
  const context = drawWhole(canvas, map);
  const bytes = bytesOfPhoto(map);
  const ghost = (i) => {
    const pale = Math.round(172 + 0.3 * grayOf(bytes, i));
    return packed([pale, pale, pale]);
  };
  const over = prepared(map, "ghost", (i) => (map.appears[i] <= share + ROUNDING ? 0 : ghost(i)));
  context.drawImage(over, 0, 0, canvas.width, canvas.height);
  if (share <= 0) return;
  for (const part of [0.25, 0.5]) strokeShare(canvas, map, part * share, colour, HAIRLINE);
  if (share < 1) strokeShare(canvas, map, share, colour, OUTLINE);
}

/** Draw the order of a map as bands of colour over the gray photo. `values`, for a signed map only, has for each pixel 0..255, 128 is zero. */
function drawHeat(canvas, map, { values = null } = {}) {
  const bytes = bytesOfPhoto(map);
  const mixed = (i) => {
    const gray = values ? grayOf(bytes, i) : 40 + 0.7 * grayOf(bytes, i);
    const band = values ? { colour: heatColour(values[i] / 255, DIVERGING), alpha: 0.65 } : BANDS.find(({ to }) => map.appears[i] <= to + ROUNDING);
    return packed(band ? band.colour.map((c) => Math.round(gray + band.alpha * (c - gray))) : [gray, gray, gray].map(Math.round));
  };
  const context = canvas.getContext("2d");
  context.imageSmoothingEnabled = Math.max(map.width, map.height) > 112;
  context.drawImage(prepared(map, "heat", mixed), 0, 0, canvas.width, canvas.height);
}

/** Draw what the net saw at `share`: the shown pixels, and elsewhere `hidden`, a colour [red, green, blue] or a picture. `shown`, if given, is
 * called with the share at which a pixel appears, and says whether it is shown, as for deletion.
 */
function drawSeen(canvas, map, { share, hidden, shown = (at) => at <= share + ROUNDING }) {
  const context = drawWhole(canvas, map);
  const fill = Array.isArray(hidden) ? null : bytesOfPhoto({ ...map, photo: hidden });
  const colour = fill ? (i) => packed([fill[4 * i], fill[4 * i + 1], fill[4 * i + 2]]) : () => packed(hidden);
  context.drawImage(prepared(map, "hidden", (i) => (shown(map.appears[i]) ? 0 : colour(i))), 0, 0, canvas.width, canvas.height);
}

/** The legend of the bands, once for a page. */
function heatLegend(positions = "pixels") {
  return make("p", { class: "band-legend soft" }, `The map's first ${positions}: `, ...BANDS.map(({ to, colour, alpha }) => {
    const swatch = make("span", { class: "swatch" });
    swatch.style.background = `rgb(${colour.join(" ")} / ${alpha})`;
    return make("span", {}, swatch, inPercent(to));
  }));
}

/** The line of three numbers, and the word of the verdict with what the picture shows. `facts` is a description as Python's ProofShape.record. */
function proofWords({ belief, proof, peak, strength, verdict, cut_words: cut = "", empty_words: empty = "", words = "" }) {
  const value = (name, p, title) => make("span", { title }, `${name} `, make("b", {}, inPercent(p).replace("less than ", "<").replace("more than ", ">")));
  return make("div", { class: `proof-words ${strength}-proof` },
    make("p", { class: "three" },
      value("belief", belief, "the net's probability of the label on the whole"), " → ",
      value("proof", proof, "the mean of the curve (the AUC of insertion)"), " · ",
      value("peak", peak, "the largest point of the curve")),
    make("p", {}, make("b", { class: "one-word", title: words }, verdict)),
    ...(cut ? [make("p", { class: "cut" }, cut)] : []),
    ...(empty ? [make("p", { class: "from-fill", title: "The net believes this of the fill alone" }, empty)] : []));
}

/** One proof, drawn: a canvas, its curve, and its words. A page calls `show` after the node has been put into the document. */
class ProofCell {
  /** `name` of the map for screen readers; `map` as for `drawProof`, or null until it is known; `facts`; `curve` has `shares` and `values`;
   * `hidden` as for `drawSeen`; `values` of a signed map; `choose`, if given, is called with the share that is clicked in the curve.
   */
  constructor({ name, map, facts, curve, hidden = [219, 219, 219], values = null, choose = null }) {
    Object.assign(this, { map, facts, curve, hidden, values, share: facts.cut, mode: "proof" });
    this.canvas = make("canvas", { class: "proof", role: "img", "aria-label": `${name}: ${facts.numbers}, ${facts.verdict}` });
    this.line = new Curve(curve.shares, curve.values, { end: 1, top: 1, f: facts.belief, words: `Curve of ${name}: ${facts.numbers}`, choose });
    this.node = make("div", { class: `proof-cell ${facts.strength}-proof` }, this.canvas, this.line.node, proofWords(facts));
    this.canvas.addEventListener("pointerenter", () => { this.seen = true; this.paint(); });
    this.canvas.addEventListener("pointerleave", () => { this.seen = false; this.paint(); });
  }

  /** Show a share of the positions (by default the cut), in the mode "proof", "heat" or "seen". */
  show({ share = this.share, mode = this.mode } = {}) {
    Object.assign(this, { share, mode });
    this.line.mark(share, share >= 1 ? this.facts.belief : interpolated(this.curve.shares, this.curve.values, share));
    this.paint();
  }

  /** While the pointer is on the picture, it is what the net saw. */
  paint() {
    if (!this.map) return;
    const { canvas, map, share, hidden, values } = this;
    const wide = Math.round(Math.max(canvas.clientWidth || map.width, 1) * Math.min(devicePixelRatio || 1, 2));
    const tall = Math.max(1, Math.round((wide * map.height) / map.width));
    if (canvas.width !== wide || canvas.height !== tall) Object.assign(canvas, { width: wide, height: tall });
    if (this.seen || this.mode === "seen") drawSeen(canvas, map, { share, hidden });
    else if (this.mode === "heat") drawHeat(canvas, map, { values });
    else drawProof(canvas, map, { share, colour: getComputedStyle(canvas).color });
  }
}

export { BANDS, drawProof, drawHeat, drawSeen, heatLegend, proofWords, ProofCell };
