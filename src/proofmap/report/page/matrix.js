// The label x label matrix: how much of its belief each label gets while the map of another is shown, as a table or a small canvas.

const MOST_IN_TABLE = 12;
const UNBELIEVED = 0.01; // maps of labels with less should prove nothing
const TRIFLE = 0.05;

/** A ratio in words: 1.2 ×. */
const inTimes = (ratio) => (ratio === null ? "-" : `${ratio < 9.95 ? ratio.toFixed(1) : Math.min(Math.round(ratio), 1000)} ×`);

/** What the cell of a matrix shows: its multiple of the belief, and "above", "trifle" or "". */
function ratioOf(value, f) {
  if (value === null || f === null) return [null, "trifle"];
  const ratio = value / Math.max(f, 1e-9);
  return [ratio, value < TRIFLE ? "trifle" : ratio > 1 / record.bar ? "above" : ""];
}

function matrixTable(names, values, f, words) {
  const cell = (value, k, a) => {
    const [ratio, kind] = ratioOf(value, f[k]);
    return make("td", { class: [kind, a === k ? "own-label" : ""].join(" ").trim() || null }, kind === "trifle" ? inPercent(value).replace("less than ", "<") : inTimes(ratio));
  };
  return make("table", { class: "matrix", "aria-label": words },
    make("thead", {}, make("tr", {}, make("td", {}), ...names.map((name) => make("th", { scope: "col" }, make("span", {}, name))))),
    make("tbody", {},
      ...values.map((row, a) => make("tr", { class: f[a] >= UNBELIEVED ? null : "unbelieved" }, make("th", { scope: "row" }, make("span", {}, names[a])), ...row.map((value, k) => cell(value, k, a)))),
      make("tr", { class: "believed" }, make("th", { scope: "row" }, `whole ${record.noun}`), ...f.map((value) => make("td", {}, inPercent(value).replace("less than ", "<"))))),
  );
}

/** The same without numbers: one pixel for each pair of labels. */
function matrixCanvas(values, f, words) {
  const canvas = make("canvas", { class: "matrix small", width: f.length, height: values.length, role: "img", "aria-label": words });
  const context = canvas.getContext("2d");
  values.forEach((row, y) => row.forEach((value, x) => {
    const [ratio, kind] = ratioOf(value, f[x]);
    context.fillStyle = `rgb(${heatColour(kind === "trifle" ? 0 : Math.min(ratio / 3, 1))})`;
    context.fillRect(x, y, 1, 1);
  }));
  return canvas;
}

if (record.matrix) {
  const { names, methods, f } = record.matrix;
  byId("matrices").append(...methods.map((values, method) => {
    const words = `Label by label matrix of ${record.methods[method].name}`;
    const drawn = names.length <= MOST_IN_TABLE ? matrixTable(names, values, f, words) : matrixCanvas(values, f, `${words}, ${names.length} labels, bright is 3 times the belief`);
    return make("figure", {}, make("figcaption", {}, methodMark(method), record.methods[method].name), make("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": words }, drawn));
  }));
}
const gallery = record.pictured.length ? new Gallery() : null;
if (record.opening) setUpOpening(gallery.cards);
