// Views, filters and sorting of the leaderboard. All numbers are in the page.
{
  const all = (what, where = document) => [...where.querySelectorAll(what)];
  const chosen = document.getElementById("view");
  const find = document.getElementById("find");
  const boxes = ["within", "unseen", "own"].map((id) => document.getElementById(id));

  /** Show the view of each task that was chosen; a task without that fill keeps its first view. */
  function showView() {
    for (const section of all("main section[id]")) {
      const views = all(".view", section);
      const wanted = views.find((view) => view.dataset.view === chosen.value) ?? views[0];
      for (const view of views) view.hidden = view !== wanted;
    }
  }

  /** Hide the rows, and their marks in the plots, that do not pass the filters. */
  function filter() {
    const text = find.value.trim().toLowerCase();
    for (const view of all(".view")) {
      const kept = new Set();
      for (const row of all("tbody tr", view)) {
        const passes = boxes.every((box) => !box.checked || row.dataset[box.id] === "1");
        row.hidden = !(passes && row.dataset.method.toLowerCase().includes(text));
        if (!row.hidden) kept.add(row.dataset.method);
      }
      for (const mark of all("svg [data-method]", view)) mark.toggleAttribute("hidden", !kept.has(mark.dataset.method));
      view.querySelector(".none").hidden = kept.size > 0;
    }
  }

  function setUpSorting(table) {
    const body = table.tBodies[0];
    table.tHead.addEventListener("click", (event) => {
      const header = event.target.closest("button")?.parentElement;
      if (!header) return;
      const now = header.getAttribute("aria-sort");
      const descending = now === "none" ? header.firstElementChild.dataset.higher === "1" : now !== "descending";
      const value = (row) => {
        const found = row.cells[header.cellIndex].dataset.value;
        return header.cellIndex === 0 ? found : found === "" ? NaN : Number(found);
      };
      const order = (a, b) => (typeof a === "string" ? a.localeCompare(b) : Number.isNaN(a) - Number.isNaN(b) || a - b);
      body.append(...[...body.rows].sort((a, b) => (descending ? -1 : 1) * order(value(a), value(b))));
      for (const other of table.tHead.rows[0].cells) if (other.hasAttribute("aria-sort")) other.setAttribute("aria-sort", "none");
      header.setAttribute("aria-sort", descending ? "descending" : "ascending");
    });
  }

  function setUpReadout(plot) {
    const readout = plot.querySelector(".readout");
    const words = readout.textContent;
    for (const mark of all(".point-mark", plot)) {
      for (const kind of ["pointerenter", "focus"]) mark.addEventListener(kind, () => { readout.textContent = mark.getAttribute("aria-label"); });
      for (const kind of ["pointerleave", "blur"]) mark.addEventListener(kind, () => { readout.textContent = words; });
    }
  }

  chosen.addEventListener("change", showView);
  find.addEventListener("input", filter);
  for (const box of boxes) box.addEventListener("change", filter);
  all("table.sortable").forEach(setUpSorting);
  all(".plot").forEach(setUpReadout);
  showView();
  filter();
}
