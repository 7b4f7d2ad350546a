// Tabs, sorting, and the link between marks and rows of the leaderboard. All numbers are in the page.
{
  const all = (what, where = document) => [...where.querySelectorAll(what)];
  const tabs = all("[role=tab]");

  function show(name) {
    for (const tab of tabs) {
      const selected = tab.getAttribute("aria-controls") === name;
      tab.setAttribute("aria-selected", selected);
      tab.tabIndex = selected ? 0 : -1;
      document.getElementById(tab.getAttribute("aria-controls")).hidden = !selected;
    }
  }

  /** Show the task that the address names, or the first. */
  function showAddressed() {
    const named = tabs.find((tab) => `#${tab.getAttribute("aria-controls")}` === location.hash);
    show((named ?? tabs[0]).getAttribute("aria-controls"));
  }

  for (const [k, tab] of tabs.entries()) {
    tab.addEventListener("click", () => { history.replaceState(null, "", `#${tab.getAttribute("aria-controls")}`); showAddressed(); });
    tab.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      const next = tabs[(k + step + tabs.length) % tabs.length];
      next.click();
      next.focus();
    });
  }

  function setUpSorting(table) {
    table.tHead.addEventListener("click", (event) => {
      const header = event.target.closest("button")?.parentElement;
      if (!header) return;
      const now = header.getAttribute("aria-sort");
      const descending = now === "none" ? header.firstElementChild.dataset.higher === "1" : now !== "descending";
      const value = (body) => {
        const found = body.rows[0].cells[header.cellIndex].dataset.value;
        return header.cellIndex === 0 ? found : found === "" ? NaN : Number(found);
      };
      const order = (a, b) => (typeof a === "string" ? a.localeCompare(b) : Number.isNaN(a) - Number.isNaN(b) || a - b);
      table.append(...[...table.tBodies].sort((a, b) => (descending ? -1 : 1) * order(value(a), value(b))));
      for (const other of table.tHead.rows[0].cells) other.setAttribute("aria-sort", "none");
      header.setAttribute("aria-sort", descending ? "descending" : "ascending");
    });
  }

  /** A row and its mark are marked together while either is pointed at or has the focus; a click opens the row. */
  function setUpRows(section) {
    const rows = new Map(all("tbody[data-method]", section).map((row) => [row.dataset.method, row]));
    const marks = new Map(all(".point", section).map((mark) => [mark.dataset.method, mark]));
    const named = new Set(all(".name", section).map((name) => name.textContent));
    const pointed = section.querySelector(".pointed");

    const choose = (method, on) => {
      rows.get(method)?.classList.toggle("chosen", on);
      marks.get(method)?.classList.toggle("chosen", on);
      const place = marks.get(method)?.transform.baseVal[0].matrix;
      pointed.textContent = on && place && !named.has(method) ? method : "";
      if (!place) return;
      pointed.setAttribute("text-anchor", place.e > 210 ? "end" : "start");
      pointed.setAttribute("x", place.e + (place.e > 210 ? -12 : 12));
      pointed.setAttribute("y", place.f + 4);
    };
    for (const [method, element] of [...rows, ...marks]) {
      for (const kind of ["pointerenter", "focusin"]) element.addEventListener(kind, () => choose(method, true));
      for (const kind of ["pointerleave", "focusout"]) element.addEventListener(kind, () => choose(method, false));
    }
    for (const [method, row] of rows) {
      const button = row.querySelector("th button");
      const open = (expanded) => {
        button.setAttribute("aria-expanded", expanded);
        document.getElementById(button.getAttribute("aria-controls")).hidden = !expanded;
      };
      button.addEventListener("click", () => open(button.getAttribute("aria-expanded") !== "true"));
      marks.get(method)?.addEventListener("click", () => {
        open(true);
        row.scrollIntoView({ block: "center" });
      });
    }
  }

  addEventListener("hashchange", showAddressed);
  all("section > .board > .scroll > table").forEach(setUpSorting);
  all("section").forEach(setUpRows);
  showAddressed();
}
