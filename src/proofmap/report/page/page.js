// Shared by all scripts of the report: the record, the marks of methods, and work before printing.

const record = JSON.parse(document.getElementById("record").textContent);

/** Register work to do before the page is printed. */
const beforePrint = (work) => addEventListener("beforeprint", work);

/** The mark of a method, copied from the table of scores. */
const methodMark = (method) =>
  document.querySelectorAll(".scores tbody .key")[record.methods.length ? method : 0].cloneNode(true);

beforePrint(() => document.querySelectorAll("#made details, .failures").forEach((d) => { d.open = true; }));
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

/** Write the numbers of the mark that is pointed at, or has the focus, below its plot. */
function setUpReadouts() {
  for (const plot of document.querySelectorAll(".plot")) {
    const readout = plot.querySelector(".readout");
    const words = readout.textContent;
    for (const mark of plot.querySelectorAll(".point-mark")) {
      for (const kind of ["pointerenter", "focus"]) mark.addEventListener(kind, () => { readout.textContent = mark.getAttribute("aria-label"); });
      for (const kind of ["pointerleave", "blur"]) mark.addEventListener(kind, () => { readout.textContent = words; });
    }
  }
}

setUpSections();
setUpReadouts();
