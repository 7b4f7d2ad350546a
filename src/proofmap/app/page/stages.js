// The stages of the page, as one state machine: from no photo (row, text) to proofs that are found. The button and the words follow the stage.

import { counted, ITEM } from "./sentences.js";

/** For each stage, the events that lead out of it. Other events are ignored: a late answer changes nothing. */
const NEXT = {
  empty: { photo: "reading", net: "reading", job: "waiting" },
  reading: { photo: "reading", believed: "ready", refused: "empty" },
  ready: { photo: "reading", net: "reading", run: "starting", job: "waiting" },
  starting: { photo: "reading", net: "reading", job: "waiting", refused: "ready", stop: "stopping" },
  waiting: { photo: "reading", net: "reading", run: "starting", stop: "stopping", lost: "ready", waiting: "waiting", running: "running", done: "done", failed: "failed", cancelled: "cancelled" },
  running: { photo: "reading", net: "reading", run: "starting", stop: "stopping", lost: "ready", done: "done", failed: "failed", cancelled: "cancelled" },
  stopping: { photo: "reading", net: "reading", refused: "running", lost: "ready", done: "done", failed: "failed", cancelled: "cancelled" },
  done: { photo: "reading", net: "reading", run: "starting", job: "waiting", lost: "ready" },
  failed: { photo: "reading", net: "reading", run: "starting", job: "waiting" },
  cancelled: { photo: "reading", net: "reading", run: "starting", job: "waiting" },
};

/** The stage after an event. */
export const next = (stage, event) => NEXT[stage][event] ?? stage;

/** Whether a job is under way. */
export const isOpen = (stage) => ["starting", "waiting", "running", "stopping"].includes(stage);

/** What the button that starts a job does and says. Another button stops it. `changed`: the choices differ from those of the job; `labels`,
 * `methods`: how many are chosen.
 */
export function buttonOf(stage, { changed = true, labels = 1, methods = 1 } = {}) {
  if (stage === "reading") return { action: null, words: `Reading the ${ITEM} …` };
  if (stage === "stopping") return { action: null, words: "Stopping …" };
  if (stage === "starting" || (isOpen(stage) && !changed)) return { action: null, words: "Finding …" };
  if (stage === "done" && !changed) return { action: null, words: "Found" };
  if (!labels) return { action: null, words: "Choose a label to prove" };
  if (!methods) return { action: null, words: "Choose a method" };
  if (isOpen(stage)) return { action: "run", words: "Find these instead" };
  return { action: "run", words: changed || stage === "ready" ? `Find the ${labels === 1 ? "proof" : "proofs"}` : "Try again" };
}

/** The stage in a sentence, with the answer of the server about the job. */
export function stageWords(stage, { place = 1, message = "", labels = 0, methods = 0 } = {}) {
  switch (stage) {
    case "starting": return "Sending the request …";
    case "waiting": return place === 1 ? "Waiting: next in the queue." : `Waiting: number ${place} in the queue.`;
    case "running": return `Finding the proofs of ${counted(labels, "label")} by ${counted(methods, "method")}.`;
    case "stopping": return "Stopping after the current step.";
    case "done": return "Done. Each proof is cut where it reaches the belief; the slider moves them all.";
    case "cancelled": return "Stopped. What was finished is shown.";
    case "failed": return `Failed: ${message || "no reason was given"}`;
    default: return "";
  }
}
