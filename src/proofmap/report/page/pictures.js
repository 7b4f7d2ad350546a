// The images in full. A map travels as levels, one byte per pixel: the first step of the slider at which its position is shown. The pixels
// shown at step k are exactly those with level <= k. The levels of a method's maps are one picture, one map below the other.

/** The share of the positions at which each pixel of a map appears. */
function appearsIn(picture, map, { width, height }) {
  const { context } = scratch({ width, height }, "levels");
  context.drawImage(picture, 0, map * height, width, height, 0, 0, width, height);
  const { data } = context.getImageData(0, 0, width, height);
  const shares = record.counts.map((count) => count / record.counts.at(-1));
  return Float32Array.from({ length: width * height }, (_, i) => shares[data[4 * i]]);
}

/** One label of one image by one method. It shows the share of its proof, or that of a step of the slider. */
class MapCell {
  constructor(card, place, method, choose) {
    const image = card.image;
    const own = image.methods[method];
    const map = own.maps[place];
    const all = record.counts.at(-1);
    this.proof = new ProofCell({
      name: `${record.methods[method].name} for ${image.labels[place].name}`, map: null, facts: own.labels[place], hidden: record.hidden.colour, choose,
      curve: { shares: record.curve_counts[method].map((count) => count / all), values: own.curve[place] },
    });
    this.read = () => {
      const appears = appearsIn(card.levels[method], map, image);
      const values = record.methods[method].signed ? bytesOf(own.heat[map]) : null;
      const shares = values && record.counts.map((count) => count / all);
      this.proof.values = values && Array.from(appears, (at) => values[shares.findIndex((share) => share >= at - 1e-6)]);
      this.proof.map = { photo: card.photo, width: image.width, height: image.height, appears };
    };
    this.node = this.proof.node;
    this.cut = own.labels[place].cut;
  }

  show(step, mode) {
    if (!this.proof.map) this.read();
    this.proof.show({ share: step === null ? this.cut : record.counts[step] / record.counts.at(-1), mode });
  }
}

/** A slider, and the cells that follow it. Until it is moved, each cell shows the share of its own proof. */
class Player {
  constructor(id) {
    this.slider = byId(id);
    this.words = byId(`${id}-words`);
    this.own = byId(`${id}-own`);
    this.cells = [];
    this.legend = heatLegend(record.positions);
    this.legend.hidden = true;
    this.slider.closest(".ruler").append(this.legend);
    [this.step, this.mode] = [null, "proof"];
    this.slider.addEventListener("input", () => this.move(Number(this.slider.value)));
    this.own.addEventListener("click", () => this.move(null));
    for (const radio of document.getElementsByName(`${id}-mode`)) {
      radio.addEventListener("change", () => {
        this.mode = radio.value;
        this.legend.hidden = this.mode !== "heat";
        this.follow();
      });
    }
  }

  move(step) {
    this.step = step;
    this.follow();
  }

  /** Move to the step that is nearest to this share. */
  choose(share) {
    const far = record.counts.map((count) => Math.abs(count / record.counts.at(-1) - share));
    this.move(far.indexOf(Math.min(...far)));
  }

  play(cells) {
    this.cells = cells;
    this.follow();
  }

  /** Write how much is shown, and paint before the next frame. */
  follow() {
    const n = record.counts.at(-1);
    const count = this.step === null ? null : record.counts[this.step];
    const words = count === null ? "each map at its own share" : record.listed ? `${count} ${record.positions}` : `${inPercent(count / n)} · ${count.toLocaleString("en")} of ${n.toLocaleString("en")} ${record.positions}`;
    if (count === null) this.slider.value = Math.round(this.slider.max / 3);
    else this.slider.value = this.step;
    this.words.textContent = words;
    this.own.hidden = count === null;
    this.slider.setAttribute("aria-valuetext", words);
    this.frame ??= requestAnimationFrame(() => {
      this.frame = undefined;
      for (const cell of this.cells) cell.show(this.step, this.mode);
    });
  }
}

/** A cell with the name of its method, or of its label, above it. */
function figureOf(card, place, method, player, head) {
  const kind = record.listed ? ListCell : MapCell;
  const cell = new kind(card, place, method, (share) => player.choose(share));
  cell.node.prepend(make("figcaption", {}, ...head));
  return cell;
}

const methodHead = (method) => [methodMark(method), make("span", {}, record.methods[method].name),
  ...(record.methods[method].label_free ? [make("span", { class: "badge" }, "one map for all labels")] : [])];

const labelHead = ({ name, f, wrong }) => [make("h4", {}, name), make("span", { class: "soft" }, wrong ? "a wrong one, to test" : inPercent(f))];

/** One image in full: a tab for each label with a cell for each method, or for the page of explain a row for each method. */
class Card {
  constructor(node, image, player) {
    Object.assign(this, { node, image, player });
    this.photo = node.querySelector("img.photo");
    this.levels = node.querySelectorAll("img.levels");
    this.rows = node.querySelector(".rows");
    this.tabs = [...node.querySelectorAll(".chip")];
    this.ready = Promise.all([this.photo, ...this.levels].filter(Boolean).map((picture) => picture.decode()));
    this.tabs.forEach((tab, place) => {
      tab.addEventListener("click", () => this.select(place));
      tab.addEventListener("keydown", ({ key }) => {
        const step = { ArrowRight: 1, ArrowLeft: -1 }[key];
        if (!step) return;
        const next = (place + step + this.tabs.length) % this.tabs.length;
        this.select(next);
        this.tabs[next].focus();
      });
    });
  }

  /** The figures of some labels by some methods, in one grid. */
  grid(words, pairs, head) {
    const cells = pairs.map(([place, method]) => figureOf(this, place, method, this.player, head(place, method)));
    return [cells, make("div", { class: "cells", role: "group", "aria-label": words }, ...cells.map((cell) => cell.node))];
  }

  select(place) {
    this.place = place;
    this.tabs.forEach((tab, k) => {
      tab.setAttribute("aria-selected", String(k === place));
      tab.tabIndex = k === place ? 0 : -1;
    });
    this.rows.setAttribute("aria-labelledby", this.tabs[place].id);
    const [cells, grid] = this.grid(`Methods for ${this.image.labels[place].name}`, record.methods.map((_, method) => [place, method]), (_, method) => methodHead(method));
    this.rows.replaceChildren(grid);
    this.ready.then(() => this.player.play(cells));
  }

  /** Show the image; the page of explain has all labels side by side. */
  open() {
    if (!record.explained) {
      this.select(this.place ?? 0);
      return;
    }
    const found = record.methods.map((_, method) =>
      this.grid(`Labels of ${this.image.name} by ${record.methods[method].name}`, this.image.labels.map((_, place) => [place, method]), (place) => labelHead(this.image.labels[place])));
    this.rows.replaceChildren(...found.flatMap(([, grid], method) => [
      ...(record.methods.length > 1 ? [make("h4", { class: "by-method" }, ...methodHead(method))] : []), grid]));
    this.ready.then(() => this.player.play(found.flatMap(([cells]) => cells)));
  }
}

/** The beginning of a text, the first columns of a row, or the line of a series. */
function stripPart({ text, columns, series }) {
  if (series) return new SeriesLine(series, series.columns.at(-1) + 1, "").node;
  return text ? text.slice(0, 24).join("") : columns.slice(0, 4).map(({ short, value }) => `${short} ${value}`).join(", ");
}

/** All images in full, one at a time, with small pictures to choose from. The first is one that the net is sure of. */
class Gallery {
  constructor() {
    const player = new Player("share");
    this.cards = record.pictured.map((image) => new Card(byId(`image-${image.index}`), image, player));
    this.buttons = this.cards.map((card) => this.button(card));
    byId("strip").append(...this.buttons);
    document.addEventListener("click", (event) => this.follow(event.target.closest("a[href^='#image-']")?.hash));
    addEventListener("hashchange", () => this.follow(location.hash));
    const sure = record.pictured.map(({ labels }) => Math.max(...labels.map(({ f }) => f ?? 0)));
    if (!this.follow(location.hash)) this.show(this.cards[record.explained ? 0 : sure.indexOf(Math.max(...sure))]);
    Promise.all(this.cards.map(({ ready }) => ready)).then(() => { document.documentElement.dataset.ready = "true"; });
  }

  button(card) {
    const { image, photo } = card;
    const top = image.labels.find(({ place }) => place === 1);
    const small = Math.max(image.width, image.height) <= 112 ? "small" : null;
    const button = make("button", { type: "button", "aria-pressed": "false" },
      record.listed
        ? make("span", { class: "strip-text", dir: "auto" }, stripPart(image))
        : make("img", { src: photo.src, alt: "", class: small, width: image.width, height: image.height }),
      make("span", { class: "strip-name" }, image.name),
      ...(top ? [make("span", { class: "soft" }, `${top.name} ${inPercent(top.f)}`)] : []));
    button.addEventListener("click", () => this.show(card));
    return button;
  }

  show(card) {
    this.cards.forEach((other, k) => {
      other.node.hidden = other !== card;
      this.buttons[k].setAttribute("aria-pressed", String(other === card));
    });
    card.open();
  }

  /** Show the image that a link leads to. */
  follow(hash) {
    const card = this.cards.find(({ image }) => `#image-${image.index}` === hash);
    if (card) this.show(card);
    return card;
  }
}

/** The most telling failure, and the same label by the method that does best. */
function setUpOpening(cards) {
  const { picture, place, methods } = record.opening;
  const card = cards[picture];
  const player = new Player("opening-share");
  const [cells, grid] = card.grid(`${record.opening.title}`, methods.map((method) => [place, method]), (_, method) => methodHead(method));
  const photo = card.photo ? [make("figure", { class: "whole" },
    make("figcaption", {}, make("span", {}, `The whole ${record.noun}`)),
    make("img", { class: card.photo.className.replace("photo", ""), src: card.photo.src, width: card.photo.width, height: card.photo.height, alt: card.photo.alt }),
    make("p", {}, "The net says: ", ...record.opening.says))] : [];
  byId("opening-cells").append(...photo, grid);
  card.ready.then(() => player.play(cells));
}
