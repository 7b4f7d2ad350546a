// The images in full. One slider sets how many positions (pixels, for example) are shown; all pictures and curves follow it.
//
// A map travels as levels, one byte per pixel: the first step of the slider at which its position is kept. The pixels
// shown at step k are exactly those with level <= k, which are those whose rank is below counts[k]. The levels of a method's
// maps are the gray values of a picture, one map below the other, as differences from their left and upper neighbours.

/** The levels of one map. */
function levelsOf(picture, map, { width, height }) {
  const { context } = scratch({ width, height }, "levels");
  context.drawImage(picture, 0, map * height, width, height, 0, 0, width, height);
  const { data } = context.getImageData(0, 0, width, height);
  const levels = Uint8Array.from({ length: width * height }, (_, i) => data[4 * i]);
  for (let i = 0; i < levels.length; i++) if (i % width) levels[i] += levels[i - 1];
  for (let i = width; i < levels.length; i++) levels[i] += levels[i - width];
  return levels;
}

/** One label of one image by one method: the heat map, the pixels kept, the curve, and the verdict. */
class Cell {
  constructor(card, place, method) {
    const image = card.image;
    const own = image.methods[method];
    const facts = own.labels[place];
    const { name, signed } = record.methods[method];
    const label = image.labels[place];
    this.card = card;
    this.method = method;
    this.map = own.maps[place];
    this.table = bytesOf(own.heat[own.heat.length === 1 ? 0 : place]);
    this.stops = signed ? DIVERGING : INFERNO;
    this.probabilities = own.curve[place];
    this.counts = record.curve_counts[method];
    this.f = label.f;
    this.heat = pictureCanvas(image, "heat", `Heat map of ${name} for ${label.name}`);
    this.kept = pictureCanvas(image, "kept", `The top ${record.positions} of ${name} for ${label.name}`);
    this.curve = new Curve(this.counts, this.probabilities, {
      end: record.counts[record.counts.length - 1], top: card.tops[place], f: label.f,
      choose: (count) => gallery.choose(count),
      words: `Insertion curve of ${name} for ${label.name}: average ${inPercent(facts.average)}, whole ${record.noun} ${inPercent(label.f)}`,
    });
    this.reading = make("p", { class: "reading-off" });
    this.node = make("figure", { class: "cell" },
      make("figcaption", { title: name }, methodMark(method), make("span", {}, name)),
      this.heat, this.kept,
      this.curve.node,
      this.reading,
      proofGlyph(facts, { whole: `whole ${record.noun}`, positions: record.positions }),
      ...(facts.fill ? [make("p", { class: "from-fill", title: "With nothing shown, the net believes the label already: the scores speak of the fill." }, facts.fill)] : []),
    );
  }

  /** Draw the heat over the gray photo. */
  paintHeat() {
    const colours = Uint32Array.from(this.table, (brightness) => packed(heatColour(brightness / 255, this.stops)));
    paintOver(this.heat, this.card.photo, (pixels) => this.put(pixels, colours), grayUnderHeat);
  }

  /** Draw the photo where the level is at most the step, and the colour of hidden pixels elsewhere. */
  paintKept(step) {
    const hidden = packed(record.hidden.colour);
    const colours = Uint32Array.from({ length: 256 }, (_, level) => (level <= step ? 0 : hidden));
    paintOver(this.kept, this.card.photo, (pixels) => this.put(pixels, colours));
  }

  /** The map as pixels, each coloured by its level. */
  put(pixels, colours) {
    this.levels ??= levelsOf(this.card.levels[this.method], this.map, this.card.image);
    for (let i = 0; i < pixels.length; i++) pixels[i] = colours[this.levels[i]];
  }

  /** Follow the slider. */
  show(step) {
    const count = record.counts[step];
    const whole = count === record.counts[record.counts.length - 1];
    const p = whole ? this.f : interpolated(this.counts, this.probabilities, count);
    this.curve.mark(count, p);
    this.reading.replaceChildren(`at ${percent(step)}: `, make("b", {}, number(p)));
    this.paintKept(step);
  }
}

/** What stands next to the name of a label that was judged although the net does not believe it. */
const wrongWords = ({ wrong }) => `a wrong one, to test (${wrong === "near" ? "near to what the net believes" : "far from what the net believes"})`;

/** The pictures of one label by one method. */
const cellOf = (card, place, method) => (record.listed ? new ListCell(card, place, method) : new Cell(card, place, method));

/** A step of the slider in percent of the positions; of rows and texts the number of columns or words. */
const percent = (step) => record.listed ? `${step} ${record.positions}` : `${((100 * step) / (record.counts.length - 1)).toFixed(1).replace(/\.0$/, "")} %`;

/** A row of pictures of one image. It is painted when it comes into view, and follows the slider while in view. */
class Row {
  constructor(card, cells, node) {
    this.card = card;
    this.cells = cells;
    this.node = node;
    this.step = null;
  }

  /** One label: a column for each method. */
  static ofMethods(card, place) {
    const label = card.image.labels[place];
    const cells = record.methods.map((_, method) => cellOf(card, place, method));
    const rank = label.wrong ? wrongWords(label) : label.place === 1 ? "the net's first choice" : `number ${label.place} for the net`;
    return new Row(card, cells, make("section", { class: "row", "aria-label": `${label.name} on ${card.image.name}` },
      make("header", {},
        make("h4", {}, label.name),
        make("p", { title: "f, the net's probability of the label" }, `whole ${record.noun} `, make("b", {}, inPercent(label.f)), make("span", { class: "bar", style: `--f: ${label.f ?? 0}` })),
        make("p", { class: "soft" }, rank)),
      make("div", { class: "cells", tabindex: "0", role: "group", "aria-label": `Methods for ${label.name}` },
        ...cells.map((cell) => cell.node)),
    ));
  }

  /** One method: a column for each label. */
  static ofLabels(card, method) {
    const alone = record.methods.length === 1;
    const tests = card.image.labels.some((label) => label.wrong); // all columns then have a line for it
    const cells = card.image.labels.map((label, place) => {
      const cell = cellOf(card, place, method);
      cell.node.querySelector("figcaption").replaceChildren(
        make("h4", {}, label.name),
        ...(tests ? [make("p", { class: "soft", title: label.wrong ? wrongWords(label) : null }, label.wrong ? "a wrong one, to test" : "\u00a0")] : []), make("span", { class: "bar", style: `--f: ${label.f ?? 0}` }));
      return cell;
    });
    const { name, label_free, signed } = record.methods[method];
    const facts = [label_free && "one map for all labels", signed && "signed"].filter(Boolean).join(", ");
    const words = alone ? `Labels of ${card.image.name}` : `Labels of ${card.image.name} by ${name}`;
    return new Row(card, cells, make("section", { class: alone ? "row wide" : "row by-method", "aria-label": words },
      ...(alone ? [] : [make("header", {},
        make("h4", {}, methodMark(method), name), make("p", { class: "soft" }, facts))]),
      make("div", { class: "cells", tabindex: "0", role: "group", "aria-label": words }, ...cells.map((cell) => cell.node)),
    ));
  }

  show(step) {
    if (this.step === step) return;
    if (this.step === null) for (const cell of this.cells) cell.paintHeat();
    for (const cell of this.cells) cell.show(step);
    this.step = step;
  }
}

/** One image in full. */
class Card {
  constructor(node, image) {
    this.node = node;
    this.image = image;
    this.photo = node.querySelector("img.photo");
    this.levels = node.querySelectorAll("img.levels");
    this.details = node.querySelector("details");
    this.chips = [...node.querySelectorAll(".chip")];
    const values = (place) => image.methods.flatMap((m) => (m.listed ?? m).curve[place]).filter((p) => p !== null);
    this.tops = image.labels.map((label, place) => Math.max(label.f ?? 0, ...values(place), 1e-6));
    if (record.explained) this.tops.fill(Math.max(...this.tops)); // labels stand side by side
    this.rows = record.explained
      ? record.methods.map((_, method) => Row.ofLabels(this, method))
      : image.labels.map((_, place) => Row.ofMethods(this, place));
    this.labelNodes = image.labels.map((_, place) =>
      record.explained ? this.rows.map((row) => row.cells[place].node) : [this.rows[place].node]);
    node.querySelector(".rows").append(...this.rows.map((row) => row.node));
    if (image.matrix && image.labels.length > 1) node.querySelector(".rows").append(matrixDetails(image));
    this.chips.forEach((chip, place) => chip.addEventListener("click", () => {
      this.switchLabel(place, chip.getAttribute("aria-pressed") !== "true");
    }));
  }

  switchLabel(place, on) {
    this.chips[place].setAttribute("aria-pressed", String(on));
    for (const node of this.labelNodes[place]) node.hidden = !on;
  }
}

/** The beginning of a text, the first columns of a row, or the line of a series. */
function stripPart({ text, columns, series }) {
  if (series) return new SeriesLine(series, series.columns.at(-1) + 1, "").node;
  return text ? text.slice(0, 24).join("") : columns.slice(0, 4).map(({ short, value }) => `${short} ${value}`).join(", ");
}

/** All images in full, and their tools. */
class Gallery {
  constructor() {
    this.slider = byId("share");
    this.seen = new Set();
    this.cards = record.pictured.map((image) => new Card(byId(`image-${image.index}`), image));
    this.rowOf = new Map(this.cards.flatMap((card) => card.rows.map((row) => [row.node, row])));
    const near = new IntersectionObserver((changes) => this.noticed(changes), { rootMargin: "150px" });
    for (const node of this.rowOf.keys()) near.observe(node);
    this.slider.addEventListener("input", () => this.follow());
    this.setUpStrip();
    beforePrint(() => {
      for (const card of this.cards) card.details.open = true;
      this.rowOf.forEach((row) => row.show(this.step));
    });
    this.setUpTools();
    this.follow();
    document.documentElement.dataset.ready = "true";
  }

  /** Set the slider to the step that is nearest to this number of positions. */
  choose(count) {
    const all = record.counts[record.counts.length - 1];
    this.slider.value = Math.round(((record.counts.length - 1) * count) / all);
    this.follow();
  }

  /** Open the image that a link leads to. */
  open(hash) {
    const card = this.cards.find(({ image }) => `#image-${image.index}` === hash);
    if (card) card.details.open = true;
  }

  /** Small photos to choose from, the one with the lowest soundness of any method with a map for each label first. */
  setUpStrip() {
    const metric = record.metrics.findIndex(({ kind }) => kind === "soundness");
    const own = record.methods.filter((method) => !method.label_free);
    const lowest = ({ index }) => {
      const values = metric < 0 ? [] : (own.length ? own : record.methods).map((method) => method.values[metric][index]);
      return Math.min(...values.filter((value) => value !== null), 2);
    };
    const worst = [...this.cards].sort((a, b) => lowest(a.image) - lowest(b.image));
    byId("strip").append(...worst.map(({ image, photo }) => {
      const value = lowest(image) <= 1 ? `soundness ${number(lowest(image))}` : "";
      const small = Math.max(image.width, image.height) <= 112 ? "small" : null;
      return make("li", {}, make("a", { href: `#image-${image.index}` },
        record.listed
          ? make("span", { class: "strip-text", dir: "auto" }, stripPart(image))
          : make("img", { src: photo.src, alt: "", class: small, width: image.width, height: image.height }),
        make("span", { class: "strip-name", title: image.name }, image.name), make("span", { class: "soft" }, value)));
    }));
  }

  get step() {
    return Number(this.slider.value);
  }

  /** Write how many positions are shown, and paint what is in view before the next frame. */
  follow() {
    const count = record.counts[this.step];
    const n = record.counts[record.counts.length - 1];
    const words = percent(this.step);
    byId("share-words").textContent = `${words}${record.listed ? "" : ` · ${count.toLocaleString("en")} of ${n.toLocaleString("en")} ${record.positions}`}`;
    this.slider.setAttribute("aria-valuetext", `${words}, ${count} of ${n} ${record.positions}`);
    this.frame ??= requestAnimationFrame(() => {
      this.frame = undefined;
      for (const row of this.seen) row.show(this.step);
    });
  }

  noticed(changes) {
    for (const change of changes) {
      const row = this.rowOf.get(change.target);
      if (change.isIntersecting) {
        this.seen.add(row);
        (row.card.photo?.decode() ?? Promise.resolve()).then(() => this.seen.has(row) && row.show(this.step));
      } else {
        this.seen.delete(row);
      }
    }
    const current = this.cards.find((card) => card.node.getBoundingClientRect().bottom > 120);
    if (current) byId("jump").value = current.image.index;
  }

  setUpTools() {
    const most = Math.max(...record.pictured.map((image) => image.labels.length));
    const choices = [...Array(most).keys()].map((k) => k + 1);
    const words = (k) => (k === most ? "all shown" : k === 1 ? "the first" : `the first ${k}`);
    byId("labels-shown").append(...choices.reverse().map((k) => make("option", { value: k }, words(k))));
    byId("labels-shown").addEventListener("change", (event) => {
      const shown = Number(event.target.value);
      for (const card of this.cards) card.labelNodes.forEach((_, place) => card.switchLabel(place, place < shown));
    });
    byId("jump").append(...record.pictured.map((image) => make("option", { value: image.index }, image.name)));
    byId("jump").addEventListener("change", (event) => {
      this.open(`#image-${event.target.value}`);
      byId(`image-${event.target.value}`).scrollIntoView();
    });
    for (const [id, open] of [["open-all", true], ["close-all", false]]) {
      byId(id)?.addEventListener("click", () => this.cards.forEach((card) => { card.details.open = open; }));
    }
    document.addEventListener("click", (event) => this.open(event.target.closest("a[href^='#image-']")?.hash));
    addEventListener("hashchange", () => this.open(location.hash));
    this.open(location.hash);
    for (const box of document.querySelectorAll("[data-view]")) {
      box.addEventListener("change", () => byId("pictures").classList.toggle(`no-${box.dataset.view}`, !box.checked));
    }
  }
}
