// Shared by the report and the page of `proofmap serve`: elements, numbers, colours, canvases, curves.
// A report contains this file in one script with the others; the page of `proofmap serve` imports it.

/** The element with this id, or null. */
const byId = (id) => document.getElementById(id);

/** A new element with attributes and children; text children are text, never markup. */
function make(tag, attributes = {}, ...children) {
  const node = tag.startsWith("svg:")
    ? document.createElementNS("http://www.w3.org/2000/svg", tag.slice(4))
    : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null) node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

/** Two decimals without the leading zero, up to four for smaller values, "-" for a missing value; as results/tables.py prints. */
function number(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "-";
  const size = Math.abs(value);
  if (size > 0 && size < 0.00005) return value > 0 ? "<.0001" : ">-.0001";
  const places = size >= 0.005 || size === 0 ? 2 : size >= 0.00095 ? 3 : 4;
  return (places === 2 ? evenHundredths(value) : value).toFixed(places).replace(/^(-?)0\./, "$1.");
}

/** Python rounds .125 to .12 and .375 to .38, toFixed rounds both up; only odd eighths are halfway. */
function evenHundredths(value) {
  if (Math.abs(value * 8) % 2 !== 1) return value;
  const below = Math.floor(value * 100);
  return (below % 2 ? below + 1 : below) / 100;
}

/** The value at x of the line through (xs, ys); null outside its range. */
function interpolated(xs, ys, x) {
  if (x < xs[0] || x > xs[xs.length - 1]) return null;
  const right = xs.findIndex((place) => place >= x);
  if (xs[right] === x) return ys[right];
  const left = right - 1;
  return ys[left] + ((ys[right] - ys[left]) * (x - xs[left])) / (xs[right] - xs[left]);
}

/** The bytes of a text in base64. */
function bytesOf(text) {
  const letters = atob(text);
  const bytes = new Uint8Array(letters.length);
  for (let i = 0; i < letters.length; i++) bytes[i] = letters.charCodeAt(i);
  return bytes;
}

/** The places of the colour map "inferno" (CC0) that the pictures of proofmap use, from dark to bright. */
const INFERNO = [
  [0, 0, 4], [31, 12, 72], [85, 15, 109], [136, 34, 106], [186, 54, 85],
  [227, 89, 51], [249, 140, 10], [249, 201, 50], [252, 255, 164],
];

/** The colours of signed maps, from one end through zero to the other, as report/colours.py has them. */
const DIVERGING = [
  [9, 78, 140], [46, 122, 199], [115, 169, 229], [181, 212, 248], [245, 245, 245],
  [250, 195, 173], [239, 131, 87], [197, 74, 5], [130, 46, 2],
];

/** The colour [red, green, blue] of a brightness in [0, 1], between the colours of these stops. */
function heatColour(brightness, stops = INFERNO) {
  const place = Math.min(Math.max(brightness, 0), 1) * (stops.length - 1);
  const left = Math.min(Math.floor(place), stops.length - 2);
  return stops[left].map((low, c) => Math.round(low + (stops[left + 1][c] - low) * (place - left)));
}

/** A colour [red, green, blue] as one number, as a canvas stores an opaque pixel. */
const packed = ([red, green, blue]) => ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;

/** A shared canvas for each size and purpose, on which pixels are prepared. */
const scratches = new Map();
function scratch({ width, height }, purpose) {
  const key = `${purpose} ${width}x${height}`;
  if (!scratches.has(key)) {
    const canvas = make("canvas", { width, height });
    const context = canvas.getContext("2d", { willReadFrequently: true });
    const data = context.createImageData(width, height);
    scratches.set(key, { canvas, context, data, pixels: new Uint32Array(data.data.buffer) });
  }
  return scratches.get(key);
}

/** A canvas for pictures of this size, with a text for screen readers. */
function pictureCanvas({ width, height }, kind, words) {
  const small = Math.max(width, height) <= 112 ? " small" : "";
  return make("canvas", { class: `${kind}${small}`, width, height, role: "img", "aria-label": words });
}

/** A curve over 0 to `end` in a frame from 0 to `top`, which is printed above; f dashed, the area filled, otherwise above f. */
class Curve {
  /** `choose`, if given, is called with the place that is clicked. */
  constructor(xs, ys, { end, top, f, words, choose = null }) {
    this.x = (place) => (100 * place) / end;
    this.y = (p) => 50 - (50 * p) / top;
    const line = xs.map((place, i) => `${this.x(place).toFixed(2)},${this.y(ys[i]).toFixed(2)}`).join("L");
    const last = this.x(xs[xs.length - 1]).toFixed(2);
    const area = `M${this.x(xs[0]).toFixed(2)},50L${line}L${last},50Z`;
    const above = { width: 100, height: Math.max(0, Math.min(50, this.y(f ?? top))) }; // an svg inside an svg is clipped
    this.cursor = make("svg:path", { class: "cursor" });
    this.dot = make("svg:path", { class: "dot" });
    this.here = make("span", { class: "here", "aria-hidden": "true" });
    this.node = make("div", { class: "curve", role: "img", "aria-label": words },
      make("span", { class: "scale", "aria-hidden": "true" }, `0 to ${number(top)}`), this.here,
      make("svg:svg", { viewBox: "0 0 100 50", preserveAspectRatio: "none", "aria-hidden": "true" },
        make("svg:path", { class: "area", d: area }),
        make("svg:svg", { class: "clip", ...above }, make("svg:path", { class: "area above", d: area })),
        make("svg:path", { class: "belief", d: `M0,${this.y(f ?? 0)}H100` }),
        make("svg:path", { class: "line", d: `M${line}` }),
        this.cursor, this.dot));
    const placeOf = (event) => {
      const { left, width } = this.node.getBoundingClientRect();
      return end * Math.min(Math.max((event.clientX - left) / width, 0), 1);
    };
    this.node.addEventListener("pointermove", (event) => {
      const place = placeOf(event);
      this.here.textContent = `${inPercent(place / end)} shown: ${number(interpolated(xs, ys, place))}`;
    });
    this.node.addEventListener("pointerleave", () => { this.here.textContent = ""; });
    if (choose) {
      this.node.classList.add("chooses");
      this.node.addEventListener("click", (event) => choose(placeOf(event)));
    }
  }

  /** Mark the value p at a place. */
  mark(place, p) {
    this.cursor.setAttribute("d", `M${this.x(place)},0V50`);
    this.dot.setAttribute("d", p === null ? "" : `M${this.x(place)},${this.y(p)}h.001`);
  }
}

/** The colour of a verdict, by the key of its word. */
const verdictColour = (strength) => `var(--${{ over: "amber", trifle: "soft", unknown: "soft" }[strength] ?? strength})`;

/** A probability in percent, as a person reads it. */
function inPercent(p) {
  if (p === null || p === undefined || Number.isNaN(p)) return "-";
  if (p > 0 && p < 0.005) return "less than 1 %";
  if (p >= 0.995 && p < 1) return "more than 99 %";
  return `${Math.round(100 * p)} %`;
}

/** The button that copies the command. */
function setUpCopy() {
  byId("copy")?.addEventListener("click", async (event) => {
    const button = event.currentTarget;
    try {
      await navigator.clipboard.writeText(byId("command").textContent);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(byId("command")); // a page from disk may not be allowed to copy
      button.textContent = "Selected";
    }
  });
}

export {
  byId, make, number, interpolated, bytesOf, INFERNO, DIVERGING, heatColour, packed, scratch, pictureCanvas,
  Curve, verdictColour, inPercent, setUpCopy,
};
