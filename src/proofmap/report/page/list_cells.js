// Texts and rows in full: words shaded by each map, or columns in its order, shown one by one with the net's probability beside them.

/** One label of one text or row by one method: its words or columns, the curve, and the verdict. */
class ListCell {
  constructor(card, place, method) {
    const image = card.image;
    const own = image.methods[method];
    const facts = own.labels[place];
    const { name, signed } = record.methods[method];
    const label = image.labels[place];
    const map = Object.fromEntries(["heat", "order", "enough", "curve"].map((key) => [key, own.listed[key][place]]));
    const drawn = { ...map, along: map.curve, strength: facts.strength, signed, f: label.f };
    const count = map.order.length;
    this.order = map.order;
    this.probabilities = map.curve;
    this.curve = new Curve(map.curve.map((_, k) => k), map.curve, {
      end: count, top: card.tops[place], f: label.f,
      choose: (chosen) => gallery.choose(chosen),
      words: `Insertion curve of ${name} for ${label.name}: average ${inPercent(facts.average)}, whole ${record.noun} ${inPercent(label.f)}`,
    });
    this.shown = image.text ? new ShownText(image.text) : new RankedColumns(image.columns, drawn, record.explained ? 10 : 6);
    this.byPlace = !image.text;
    this.reading = make("p", { class: "reading-off" });
    this.node = make("figure", { class: "cell" },
      make("figcaption", { title: name }, methodMark(method), make("span", {}, name)),
      ...(image.text ? [make("div", { class: "texts" }, shadedText(image.text, drawn), this.shown.node)] : [this.shown.node]),
      make("div", { class: "facts-of" }, this.reading, this.curve.node,
        proofGlyph(facts, { whole: `whole ${record.noun}`, positions: record.positions }),
        ...(facts.fill ? [make("p", { class: "from-fill", title: "With nothing shown, the net believes the label already: the scores speak of the fill." }, facts.fill)] : [])),
    );
  }

  paintHeat() {} // it does not change

  /** Show the first words or columns of the map. */
  show(step) {
    const count = Math.min(step, this.order.length);
    const p = this.probabilities[count];
    this.curve.mark(count, p);
    const all = count === this.order.length ? " (all)" : "";
    this.reading.replaceChildren(`${count} ${record.positions}${all}: `, make("b", {}, inPercent(p)));
    this.shown.show((k) => (this.byPlace ? k : this.order[k]) < count);
  }
}
