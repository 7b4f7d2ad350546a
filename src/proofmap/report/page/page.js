// Shared by all scripts of the report: the record, the marks of methods, links, and words about what is pointed at or tapped.

const record = JSON.parse(document.getElementById("record").textContent);

/** The mark of a method, copied from the table of scores. */
const methodMark = (method) => document.querySelector(`.scores tr[data-method="${method}"] .key`).cloneNode(true);

addEventListener("beforeprint", () => document.querySelectorAll(".fold, .failures, #made details").forEach((d) => { d.open = true; }));
setUpCopy();

/** Mark the link to the section that is being read. */
function setUpSections() {
  const links = new Map([...document.querySelectorAll(".sections a")].map((link) => [byId(link.hash.slice(1)), link]));
  const follow = () => {
    const line = innerHeight / 3;
    const current = [...links.keys()].filter((section) => section.getBoundingClientRect().top <= line).pop() ?? links.keys().next().value;
    for (const [section, link] of links) {
      if (section === current) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
  };
  addEventListener("scroll", follow, { passive: true });
  follow();
}

/** Write the words of the dot or mark that is pointed at, tapped, or has the focus. */
function setUpReadouts() {
  for (const [place, marks, readout] of [["#scores", "[data-words]", byId("dot-words")], ...[...document.querySelectorAll(".plot")].map((plot) => [plot, ".point-mark", plot.querySelector(".readout")])]) {
    const words = readout.textContent;
    const node = typeof place === "string" ? document.querySelector(place) : place;
    const say = (event) => {
      const mark = event.target.closest(marks);
      if (mark) readout.textContent = mark.dataset.words ?? mark.getAttribute("aria-label");
    };
    for (const kind of ["pointerover", "click", "focusin"]) node.addEventListener(kind, say);
    node.addEventListener("pointerout", (event) => {
      if (event.pointerType === "mouse" && event.target.closest(marks)) readout.textContent = words;
    });
  }
}

setUpSections();
setUpReadouts();
