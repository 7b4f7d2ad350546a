// The theme of every page: the system's, until the button with the id "theme" is pressed; then the browser remembers it.
// Loaded before a page is drawn. A page inside a frame, which has no storage there, gets the theme from the page around it.
{
  const KEY = "proofmap-theme";
  const THEMES = ["light", "dark"];
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const current = () => root.dataset.theme ?? (system.matches ? "dark" : "light");

  const show = () => {
    const button = document.getElementById("theme");
    if (button) button.textContent = current() === "dark" ? "Light theme" : "Dark theme";
    for (const frame of document.querySelectorAll("iframe")) frame.contentWindow.postMessage({ theme: current() }, "*");
  };
  const take = (theme) => {
    if (THEMES.includes(theme)) root.dataset.theme = theme;
    show();
  };
  const setUp = () => {
    document.getElementById("theme")?.addEventListener("click", () => {
      take(current() === "dark" ? "light" : "dark");
      try {
        localStorage.setItem(KEY, current());
      } catch { /* this page has no storage */ }
    });
    for (const frame of document.querySelectorAll("iframe")) frame.addEventListener("load", show);
    show();
  };

  try {
    take(localStorage.getItem(KEY));
  } catch { /* this page has no storage */ }
  system.addEventListener("change", show);
  addEventListener("storage", ({ key, newValue }) => { if (key === KEY) take(newValue); });
  addEventListener("message", ({ source, data }) => { if (source === parent && source !== window) take(data?.theme); });
  if (document.readyState === "loading") addEventListener("DOMContentLoaded", setUp);
  else setUp();
}
