// Names for screen readers that the theme leaves out.
document.querySelector(".md-search")?.setAttribute("aria-label", "Search");
document.querySelectorAll("nav[aria-labelledby]").forEach((nav, number) => {
  const label = document.getElementById(nav.getAttribute("aria-labelledby"));
  nav.setAttribute("aria-label", `Pages ${number + 1}: ${label ? label.textContent.trim() : ""}`);
  nav.removeAttribute("aria-labelledby");
});
