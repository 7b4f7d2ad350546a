// Sortable tables: the scores, which the page contains, and the list of all images, made from the record.

/** Order of two values; missing ones are last in both directions. */
function compare(a, b, descending) {
  const missing = (v) => v === null || v === "" || v === undefined;
  if (missing(a) || missing(b)) return Number(missing(a)) - Number(missing(b));
  const order = typeof a === "number" && typeof b === "number"
    ? a - b
    : String(a).localeCompare(String(b), undefined, { numeric: true });
  return descending ? -order : order;
}

/** Mark the sorted column and its direction in the header. */
function markSorted(header, descending) {
  for (const other of header.parentElement.children) other.setAttribute("aria-sort", "none");
  header.setAttribute("aria-sort", descending ? "descending" : "ascending");
}

/** The direction after a click on this header: first its default, then the other one. */
function nextDirection(header, first) {
  const now = header.getAttribute("aria-sort");
  return now === "none" ? first : now !== "descending";
}

function setUpScores() {
  const table = document.querySelector("table.sortable");
  const body = table.tBodies[0];
  table.tHead.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    const header = button.parentElement;
    const column = header.cellIndex;
    const descending = nextDirection(header, button.dataset.higher === "1");
    const value = (row) => {
      const text = row.cells[column].dataset.value;
      return column === 0 || text === "" ? text : Number(text);
    };
    body.append(...[...body.rows].sort((a, b) => compare(value(a), value(b), descending)));
    markSorted(header, descending);
  });
  const more = byId("more-scores");
  more?.addEventListener("click", () => more.setAttribute("aria-expanded", String(table.classList.toggle("all"))));
}

/** The list of all images: one metric at a time, a column for each method; rows are made as they are needed. */
class ImageList {
  static PART = 100;

  constructor() {
    this.table = byId("list");
    this.pictured = new Set(record.pictured.map((picture) => picture.index));
    this.order = record.images.names.map((_, i) => i);
    this.metric = Math.max(0, record.metrics.findIndex((metric) => metric.kind === "soundness"));
    this.rows = [];
    byId("metric").append(...record.metrics.map((m, i) => make("option", { value: i }, m.words)));
    byId("metric").value = this.metric;
    byId("metric").addEventListener("change", (event) => {
      this.metric = Number(event.target.value);
      this.refresh();
    });
    byId("find").addEventListener("input", () => this.refresh());
    byId("more").addEventListener("click", () => this.grow());
    const near = new IntersectionObserver((seen) => seen.some((s) => s.isIntersecting) && this.grow(), {
      root: this.table.parentElement, rootMargin: "600px",
    });
    this.setUpHead();
    this.refresh();
    near.observe(byId("more"));
  }

  setUpHead() {
    const head = (words, column, first, mark = []) => {
      const button = make("button", { type: "button" }, ...mark, words);
      const cell = make("th", { scope: "col", "aria-sort": "none", class: column > 1 ? "number" : null }, button);
      button.addEventListener("click", () => this.sort(cell, column, first()));
      return cell;
    };
    const worstFirst = () => !record.metrics[this.metric].higher;
    this.table.tHead.append(make("tr", {},
      head(record.noun, 0, () => false),
      head("top label", 1, () => false),
      head("f", 2, () => true),
      ...record.methods.map((method, m) => head(method.name, m + 3, worstFirst, [methodMark(m)])),
    ));
  }

  value(image, column) {
    if (column === 0) return record.images.names[image];
    if (column === 1) return this.label(image);
    if (column === 2) return record.images.f[image];
    return record.methods[column - 3].values[this.metric][image];
  }

  label(image) {
    return record.images.label_names[record.images.labels[image]];
  }

  sort(header, column, first) {
    const descending = nextDirection(header, first);
    this.sorted = { column, descending };
    markSorted(header, descending);
    this.refresh();
  }

  refresh() {
    const text = byId("find").value.trim().toLowerCase();
    const holds = (image) => `${record.images.names[image]}\n${this.label(image)}`.toLowerCase().includes(text);
    this.rows = text ? this.order.filter(holds) : [...this.order];
    if (this.sorted) {
      const { column, descending } = this.sorted;
      this.rows.sort((a, b) => compare(this.value(a, column), this.value(b, column), descending));
    }
    this.table.tBodies[0].replaceChildren();
    this.table.parentElement.scrollTop = 0;
    this.grow();
  }

  grow() {
    const body = this.table.tBodies[0];
    const from = body.rows.length;
    const part = document.createDocumentFragment();
    for (const image of this.rows.slice(from, from + ImageList.PART)) part.append(this.row(image));
    body.append(part);
    byId("more").hidden = body.rows.length >= this.rows.length;
    const all = record.images.names.length;
    const images = `${all} ${all === 1 ? record.noun : record.nouns}`;
    byId("found").textContent = this.rows.length === all ? images : `${this.rows.length} of ${images}`;
  }

  row(image) {
    const name = record.images.names[image];
    const row = make("tr", {},
      make("th", { scope: "row", title: name }, this.pictured.has(image) ? make("a", { href: `#image-${image}` }, name) : name),
      make("td", { title: this.label(image) }, this.label(image)),
      make("td", { class: "number" }, number(record.images.f[image])),
    );
    record.methods.forEach((method) => {
      row.append(make("td", { class: "number" }, number(method.values[this.metric][image])));
    });
    return row;
  }
}

setUpScores();
new ImageList();
