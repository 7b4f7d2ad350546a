// Series, drawn: a line for each channel, with the value of a map behind it, the proof marked, and hidden parts faint.
// Shared by the report and the page of `proofmap serve`. The report has all scripts in one, so it leaves out the import.

import { DIVERGING, heatColour, make, verdictColour } from "./shared.js";

const TALL = 100; // height of a drawing in its own units

/** The parts of a drawing that belong to one position, or to several if there are more positions than columns: `from` and `to` are columns,
 * `first` and `end` positions.
 */
function bandsOf(columns, count) {
  const bands = [];
  columns.forEach((first, column) => {
    if (column && columns[column - 1] === first) return;
    if (bands.length) Object.assign(bands.at(-1), { to: column, end: first });
    bands.push({ from: column, to: columns.length, first, end: count });
  });
  return bands;
}

/** A series of `count` positions; `drawing` has columns and lines as the server and the report give them. */
class SeriesLine {
  constructor({ columns, lines }, count, words) {
    Object.assign(this, { columns, lines });
    const width = columns.length;
    this.bands = bandsOf(columns, count);
    this.backs = this.bands.map(({ from, to }) => make("svg:rect", { class: "back", x: from, width: to - from, y: 0, height: TALL }));
    this.paths = Object.fromEntries(["all", "shown", "proves"].map((kind) => [kind,
      lines.map((_, k) => make("svg:path", { class: `${kind} channel-${k % 7}` }))]));
    this.node = make("svg:svg", { class: "series-line", viewBox: `0 0 ${width} ${TALL}`, preserveAspectRatio: "none", role: "img", "aria-label": words },
      ...this.backs, make("svg:path", { class: "zero", d: `M0,${TALL / 2}H${width}` }),
      ...this.paths.all.toReversed(), ...this.paths.shown.toReversed(), ...this.paths.proves.toReversed());
    this.draw("all", () => true);
    this.draw("shown", () => true);
  }

  /** Draw the lines of one kind where `kept` holds for the position. */
  draw(kind, kept) {
    this.paths[kind].forEach((path, k) => {
      const { low, high } = this.lines[k];
      let [d, open] = ["", false];
      this.columns.forEach((position, column) => {
        if (!kept(position)) {
          open = false;
          return;
        }
        const [bottom, top] = [low[column], high[column]].map((height) => (TALL * (1 - height)).toFixed(2));
        if (!open) d += `M${column},${bottom}`; // from the left edge of the column, so that a single one can be seen
        d += `L${column + 0.5},${bottom}${bottom === top ? "" : `V${top}`}`;
        if (column + 1 === this.columns.length || !kept(this.columns[column + 1])) d += `L${column + 1},${top}`;
        open = true;
      });
      path.setAttribute("d", d);
    });
  }

  /** Show some positions; the others are faint. */
  show(kept) {
    this.draw("shown", kept);
  }

  /** The value 0..255 of a map behind each position; of a signed map 128 is zero. */
  shade(map, signed) {
    this.backs.forEach((back, k) => {
      const share = map[this.bands[k].first] / 255;
      back.style.setProperty("--h", signed ? 0 : share.toFixed(3));
      if (signed) back.style.fill = `rgb(${heatColour(0.5 + (share - 0.5) * 0.44, DIVERGING).join(" ")})`;
      back.classList.toggle("signed", signed);
    });
  }

  /** Mark the first `enough` positions of the `order` of a map in the colour of the verdict. */
  prove(order, enough, strength) {
    this.node.style.setProperty("--verdict", verdictColour(strength));
    this.draw("proves", (position) => order[position] < enough);
    this.backs.forEach((back, k) => back.classList.toggle("proves", order[this.bands[k].first] < enough));
  }
}

/** The names of the channels of a series, in the colours of their lines; null if they have none. */
function channelLegend({ lines }) {
  if (!lines.some(({ name }) => name)) return null;
  return make("p", { class: "channels soft" }, ...lines.map(({ name }, k) => make("span", { class: `channel-${k % 7}` }, name)));
}

export { SeriesLine, channelLegend };
