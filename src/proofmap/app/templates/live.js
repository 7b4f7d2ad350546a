// Keeps the parts of a page that change as they are: asks for the page again, and replaces those that differ.

const EVERY = 2000; // milliseconds, while someone looks
const EVERY_HIDDEN = 15000;

const said = document.getElementById("said");
const opened = document.body.dataset.version;

/** The names of the runs that a page lists, in its order; one string. */
const listed = (page) => [...page.querySelectorAll("article.run")].map((run) => run.id).join();

function takeOver(fresh) {
  if (listed(fresh) !== listed(document)) {
    document.getElementById("runs").replaceChildren(...fresh.getElementById("runs").childNodes);
    return;
  }
  for (const part of document.querySelectorAll("[data-live]")) {
    const now = fresh.getElementById(part.id);
    if (now && now.innerHTML !== part.innerHTML) part.replaceChildren(...now.childNodes);
  }
  const newer = document.getElementById("newer");
  if (newer) newer.hidden = fresh.body.dataset.version === opened;
  if (newer && fresh.querySelector("iframe") && !document.querySelector("iframe")) location.reload();
}

async function refresh() {
  let words = "";
  try {
    const answer = await fetch(location.href, { headers: { accept: "text/html" } });
    if (answer.ok) takeOver(new DOMParser().parseFromString(await answer.text(), "text/html"));
    else words = "The server no longer has this page; below is what it said last.";
  } catch {
    words = "The server does not answer; below is what it said last.";
  }
  if (said.textContent !== words) said.textContent = words;
  setTimeout(refresh, document.hidden ? EVERY_HIDDEN : EVERY);
}

setTimeout(refresh, EVERY);
