// Texts in full: words shaded by each map, and the words shown one by one, with the net's probability beside them.

/** One label of one text by one method: the shaded text, the words shown, the curve, and the verdict. */
class WordCell {
  constructor(card, place, method) {
    const image = card.image;
    const own = image.methods[method];
    const facts = own.labels[place];
    const { name, signed } = record.methods[method];
    const label = image.labels[place];
    this.order = own.words.order[place];
    this.curve = new Curve(image.text.map((_, k) => k).concat(image.text.length), own.words.curve[place], {
      end: image.text.length, top: card.tops[place], f: label.f,
      choose: (count) => gallery.choose(count),
      words: `Insertion curve of ${name} for ${label.name}: average ${inPercent(facts.average)}, whole ${record.noun} ${inPercent(label.f)}`,
    });
    this.probabilities = own.words.curve[place];
    const [heat, along, enough] = [own.words.heat, own.words.curve, own.words.enough].map((each) => each[place]);
    this.kept = new ShownText(image.text);
    this.reading = make("p", { class: "reading-off" });
    this.node = make("figure", { class: "cell" },
      make("figcaption", { title: name }, methodMark(method), make("span", {}, name)),
      make("div", { class: "texts" }, shadedText(image.text, { heat, along, enough, order: this.order, strength: facts.strength, signed }), this.kept.node),
      make("div", { class: "facts-of" }, this.reading, this.curve.node,
        proofGlyph(facts, { whole: `whole ${record.noun}`, positions: record.positions }),
        ...(facts.fill ? [make("p", { class: "from-fill", title: "With nothing shown, the net believes the label already: the scores speak of the fill." }, facts.fill)] : [])),
    );
  }

  paintHeat() {} // the shades do not change

  /** Show the first words of the map. */
  show(step) {
    const count = Math.min(step, this.order.length);
    const p = this.probabilities[count];
    this.curve.mark(count, p);
    const all = count === this.order.length ? " (all)" : "";
    this.reading.replaceChildren(`${count} ${record.positions}${all}: `, make("b", {}, inPercent(p)));
    this.kept.show((k) => this.order[k] < count);
  }
}
