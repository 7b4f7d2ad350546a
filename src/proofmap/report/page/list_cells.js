// Texts, rows and series in full: words shaded by each map, columns in its order, or a line, shown one by one with the net's probability beside them.

/** One label of one text, row or series by one method: its words, columns or line, the curve, and the verdict. */
class ListCell {
  constructor(card, place, method, choose) {
    const image = card.image;
    const own = image.methods[method];
    const facts = own.labels[place];
    const { name, signed } = record.methods[method];
    const label = image.labels[place];
    const map = Object.fromEntries(["heat", "order", "enough", "curve"].map((key) => [key, own.listed[key][place]]));
    const drawn = { ...map, along: map.curve, strength: facts.strength, signed, f: label.f };
    const count = map.order.length;
    Object.assign(this, { order: map.order, probabilities: map.curve, cut: Math.round(facts.cut * count), byPlace: Boolean(image.columns) });
    this.curve = new Curve(map.curve.map((_, k) => k / count), map.curve, {
      end: 1, top: 1, f: label.f, choose: (share) => choose((share * count) / record.counts.at(-1)), words: `Curve of ${name} for ${label.name}: ${facts.numbers}`,
    });
    this.shown = this.drawing(image, drawn, `Map of ${name} for ${label.name} behind the line`);
    this.reading = make("p", { class: "reading-off" });
    this.node = make("figure", { class: `cell proof-cell ${facts.strength}-proof` },
      ...(image.text ? [make("div", { class: "texts" }, shadedText(image.text, drawn), this.shown.node)] : [this.shown.node]),
      make("div", { class: "facts-of" }, this.reading, this.curve.node, proofWords(facts)),
    );
  }

  drawing({ text, columns, series }, map, words) {
    if (text) return new ShownText(text);
    if (columns) return new RankedColumns(columns, map, record.explained ? 10 : 6);
    const line = new SeriesLine(series, map.order.length, words);
    line.shade(map.heat, map.signed);
    line.prove(map.order, map.enough, map.strength);
    return line;
  }

  /** Show the first words, columns or segments of the map: as many as the slider says, or those of the proof. */
  show(step) {
    const count = Math.min(step ?? this.cut, this.order.length);
    const p = this.probabilities[count];
    this.curve.mark(count / this.order.length, p);
    this.reading.replaceChildren(`${count} of ${this.order.length} ${record.positions}: `, make("b", {}, inPercent(p)));
    this.shown.show((k) => (this.byPlace ? k : this.order[k]) < count);
  }
}
