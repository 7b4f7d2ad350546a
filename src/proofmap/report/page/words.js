// Texts in full: words shaded by each map, and the words shown one by one, with the net's probability beside them.

/** A text with one element for each word; `dress` is called with each element and the number of its word. */
function textNode(words, attributes, dress) {
  return make("p", { dir: "auto", ...attributes }, ...words.flatMap((word, k) => {
    const bare = word.trimEnd();
    const node = make("span", { class: "word" }, bare);
    dress(node, k);
    return [node, word.slice(bare.length)];
  }));
}

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
    const proof = own.words.enough[place];
    const heat = textNode(image.text, { class: "words heat", style: `--verdict: var(--${facts.strength})` }, (node, k) => {
      const value = own.words.heat[place][k] / 255;
      if (!signed) node.style.setProperty("--h", value.toFixed(3));
      else if (Math.abs(value - 0.5) > 0.01) {
        node.classList.add("signed");
        node.style.background = `rgb(${heatColour(0.5 + (value - 0.5) * 0.44, DIVERGING).join(" ")})`;
      }
      if (this.order[k] < proof) node.classList.add("proves");
      node.title = `number ${this.order[k] + 1} of the map; with it ${inPercent(own.words.curve[place][this.order[k] + 1])}`;
    });
    this.spans = [];
    const kept = textNode(image.text, { class: "words kept" }, (node) => this.spans.push(node));
    this.reading = make("p", { class: "reading-off" });
    this.node = make("figure", { class: "cell" },
      make("figcaption", { title: name }, methodMark(method), make("span", {}, name)),
      make("div", { class: "texts" }, heat, kept),
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
    this.spans.forEach((span, k) => span.classList.toggle("unseen-word", this.order[k] >= count));
  }
}
