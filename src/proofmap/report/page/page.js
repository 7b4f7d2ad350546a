// What all scripts of the page share: the record, how numbers are written, the theme.

const record = JSON.parse(document.getElementById("record").textContent);

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

/** Two decimals without the leading zero, small values in scientific form, "-" where there is none. */
function number(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "-";
  if (value !== 0 && Math.abs(value) < 0.005) return value.toExponential(0);
  return evenHundredths(value).toFixed(2).replace(/^0\./, ".");
}

/** Python rounds .125 to .12 and .375 to .38, toFixed rounds both up; only odd eighths lie halfway. */
function evenHundredths(value) {
  if (Math.abs(value * 8) % 2 !== 1) return value;
  const below = Math.floor(value * 100);
  return (below % 2 ? below + 1 : below) / 100;
}

/** Work to do before the page goes on paper. */
const beforePrint = (work) => addEventListener("beforeprint", work);

/** The value on a line through (xs, ys) at x; null outside of it. */
function interpolated(xs, ys, x) {
  if (x < xs[0] || x > xs[xs.length - 1]) return null;
  const right = xs.findIndex((place) => place >= x);
  if (xs[right] === x) return ys[right];
  const left = right - 1;
  return ys[left] + ((ys[right] - ys[left]) * (x - xs[left])) / (xs[right] - xs[left]);
}

/** The places of the colour map "inferno" (CC0) that the pictures of proofmap use, from dark to bright. */
const INFERNO = [
  [0, 0, 4], [31, 12, 72], [85, 15, 109], [136, 34, 106], [186, 54, 85],
  [227, 89, 51], [249, 140, 10], [249, 201, 50], [252, 255, 164],
];

/** The colour [red, green, blue] of a brightness in [0, 1], between the colours of these stops. */
function heatColour(brightness, stops = INFERNO) {
  const place = Math.min(Math.max(brightness, 0), 1) * (stops.length - 1);
  const left = Math.min(Math.floor(place), stops.length - 2);
  return stops[left].map((low, c) => Math.round(low + (stops[left + 1][c] - low) * (place - left)));
}

/** The picture that marks a method everywhere: taken from the table of scores. */
const methodMark = (method) =>
  document.querySelectorAll(".scores tbody .key")[record.methods.length ? method : 0].cloneNode(true);

function setUpTheme() {
  const button = byId("theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (document.documentElement.dataset.theme ?? (system.matches ? "dark" : "light")) === "dark";
  const name = () => { button.textContent = isDark() ? "Light theme" : "Dark theme"; };
  button.addEventListener("click", () => {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    name();
  });
  system.addEventListener("change", name);
  name();
}

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

beforePrint(() => document.querySelectorAll("#made details, .failures").forEach((d) => { d.open = true; }));
setUpTheme();
setUpCopy();
