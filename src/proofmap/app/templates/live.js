// Keeps a page up to date: requests it again, and replaces the parts that differ.

const EVERY = 2000; // milliseconds, while the tab is visible
const EVERY_HIDDEN = 15000;

const said = document.getElementById("said");
const opened = document.body.dataset.version;

/** The names of the runs in a page, as one string. */
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
    else words = "The server no longer has this page; below is its last answer.";
  } catch {
    words = "The server does not answer; below is its last answer.";
  }
  if (said.textContent !== words) said.textContent = words;
  setTimeout(refresh, document.hidden ? EVERY_HIDDEN : EVERY);
}

setTimeout(refresh, EVERY);
