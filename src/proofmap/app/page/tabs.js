// Two tabs: the proofs, and painting one (the tabs of ARIA: arrows go from one to the other).

import { byId } from "./shared.js";

export class Tabs {
  /** `opened` is called after another tab is shown. */
  constructor(opened) {
    this.opened = opened;
    this.tabs = [...document.querySelectorAll("[role=tab]")];
    this.tabs.forEach((tab, place) => {
      tab.addEventListener("click", () => this.open(tab.getAttribute("aria-controls")));
      tab.addEventListener("keydown", ({ key }) => {
        const other = this.tabs[place + ({ ArrowLeft: -1, ArrowRight: 1 }[key] ?? NaN)];
        if (!other || other.hidden) return;
        this.open(other.getAttribute("aria-controls"));
        other.focus();
      });
    });
  }

  /** Show the panel with this id. */
  open(id) {
    for (const tab of this.tabs) {
      const panel = tab.getAttribute("aria-controls");
      tab.setAttribute("aria-selected", String(panel === id));
      tab.tabIndex = panel === id ? 0 : -1;
      byId(panel).hidden = panel !== id;
    }
    this.opened();
  }
}
