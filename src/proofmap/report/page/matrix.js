// The label x label matrix: a table with coloured cells, or a small canvas if there are many labels.

const MOST_IN_TABLE = 12;
const UNBELIEVED = 0.01; // maps of labels with less should prove nothing, so nothing is compared with them

/** Black or white, whichever contrasts more with this colour (relative luminance as in WCAG). */
function inkOn(colour) {
  const [red, green, blue] = colour.map((c) => (c <= 10 ? c / 3294 : ((c / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.179 ? "#000" : "#fff";
}

/** The matrix of one method; the last row is f on the whole image. Cells above their row's diagonal are outlined, except for labels that the net does not believe. */
function matrixTable(names, values, f, top, words) {
  const cell = (value, own = null) => {
    if (value === null) return make("td", { class: "number" }, "-");
    const colour = heatColour(value / top);
    const above = own !== null && value > own;
    return make("td", {
      class: above ? "above" : null, style: `background: rgb(${colour}); color: ${inkOn(colour)}`,
      title: above ? `above its own label's ${number(own)}` : null,
    }, number(value), ...(above ? [make("span", { class: "unseen" }, ", more than its own label")] : []));
  };
  const short = (name) => make("span", { title: name }, name);
  return make("table", { class: "matrix", "aria-label": words },
    make("thead", {}, make("tr", {}, make("td", {}), ...names.map((name) => make("th", { scope: "col" }, short(name))))),
    make("tbody", {},
      ...values.map((row, a) => make("tr", {}, make("th", { scope: "row" }, short(names[a])), ...row.map((value) => cell(value, f[a] >= UNBELIEVED ? row[a] : null)))),
      make("tr", { class: "believed" }, make("th", { scope: "row", title: `f: the net's probability on the whole ${record.noun}` }, "whole"), ...f.map((value) => cell(value)))),
  );
}

/** The same without numbers: one pixel for each pair of labels. */
function matrixCanvas(values, f, top, words) {
  const rows = [...values, f];
  const canvas = make("canvas", { class: "matrix small", width: f.length, height: rows.length, role: "img", "aria-label": words });
  const context = canvas.getContext("2d");
  rows.forEach((row, y) => row.forEach((value, x) => {
    if (value === null) return;
    context.fillStyle = `rgb(${heatColour(value / top)})`;
    context.fillRect(x, y, 1, 1);
  }));
  return canvas;
}

/** One picture for each method, all on one scale. */
function matrixFigures(names, matrices, f, answers = []) {
  const top = Math.max(1e-6, ...matrices.flat(2).filter((v) => v !== null), ...f.filter((v) => v !== null));
  return matrices.map((values, method) => {
    const words = `Label by label matrix of ${record.methods[method].name}`;
    const drawn = names.length <= MOST_IN_TABLE
      ? matrixTable(names, values, f, top, words)
      : matrixCanvas(values, f, top, `${words}, ${names.length} labels, dark is 0 and bright is ${number(top)}`);
    const name = make("figcaption", {}, methodMark(method), record.methods[method].name);
    const answer = answers[method] ? [make("p", { class: "answer" }, answers[method])] : [];
    return make("figure", {}, name, ...answer, make("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": words }, drawn));
  });
}

/** The matrices of one image, made when they are opened. */
function matrixDetails(image) {
  const place = make("div", { class: "matrices" });
  const details = make("details", { class: "own-matrix" }, make("summary", {}, "Label by label"), place);
  details.addEventListener("toggle", () => {
    if (place.childElementCount) return;
    place.append(...matrixFigures(image.labels.map((l) => l.name), image.matrix, image.labels.map((l) => l.f)));
  });
  return details;
}

if (record.matrix) byId("matrices").append(...matrixFigures(record.matrix.names, record.matrix.methods, record.matrix.f, record.matrix.answers));
const gallery = record.pictured.length ? new Gallery() : null;
