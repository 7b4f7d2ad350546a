// Sentences with numbers in them.

import { inPercent } from "./shared.js";

/** What the page is about, and what a proof of it is made of. */
export const { item: ITEM = "photo", items: ITEMS = "photos", positions: POSITIONS = "pixels" } = document.documentElement.dataset;
export const POSITION = POSITIONS.replace(/s$/, "");
export const NET = ITEM === "photo" ? "net" : "model";
const PART = ITEM === "photo" ? "Your patch" : "Your proof";

const BAR = 0.8; // of completeness and soundness, as everywhere
const NOTABLE = 0.05; // a part that gives less proves nothing
export const UNBELIEVED = 0.01; // a label with a lower probability is a wrong one
export const WRONG = "a wrong one, to test";
const quoted = (name) => `“${name}”`;

/** "1 pass", "2 passes". */
export const counted = (n, one, many = `${one}s`) => `${n.toLocaleString("en")} ${n === 1 ? one : many}`;

/** A share in percent, with one decimal where it is needed. */
export const percent = (share) => `${(100 * share).toFixed(1).replace(/\.0$/, "")} %`;

/** A probability in percent, with signs for words. */
export const shortPercent = (p) => inPercent(p).replace("less than ", "<").replace("more than ", ">");

/** A duration in words. */
export function duration(seconds) {
  if (seconds < 1.5) return "a second";
  if (seconds < 90) return `${Math.round(seconds)} s`;
  return `${Math.round(seconds / 60)} min`;
}

/** The progress of a job: passes, passes per second, time left. */
export function progressWords({ what, step, steps, rate, seconds_left: left }, method) {
  const parts = [what === method ? method : `${method}: ${what}`];
  if (steps) parts.push(`${step.toLocaleString("en")} of ${counted(steps, "pass", "passes")}`);
  if (rate) parts.push(`${Math.round(rate).toLocaleString("en")} passes per second`);
  if (left !== null) parts.push(`${duration(left)} left`);
  return parts.join(" · ");
}

/** A message of the server as a sentence. */
export const asSentence = (message) => `${message[0].toUpperCase()}${message.slice(1).replace(/\.$/, "")}.`;

/** The verdict on a painted part. `leader` is the label that leads on it, `target` the one that the visitor wants to prove; both have
 * `name`, `f` on the part and `whole` on the whole photo. `machine` is the f of the target on a method's proof of the same size, or null.
 */
export function verdict({ leader, target, machine = null, method = "", share, searching = false }) {
  if (share === 0) return `Nothing is shown yet. ${ITEM === "photo" ? "Paint what makes" : `Press the ${POSITIONS} that make`} the ${NET} say ${quoted(target.name)}.`;
  const first = `${PART} makes the ${NET} say ${quoted(leader.name)} ${inPercent(leader.f)}; of the whole ${ITEM} it believes ${inPercent(leader.whole)}. ${judgement(leader)}`;
  const second = leader.label === target.label ? ""
    : ` For ${quoted(target.name)} it gives ${inPercent(target.f)} of ${inPercent(target.whole)}. ${judgement(target)}`;
  return `${first}${second} ${compared({ target, machine, method, searching })}`;
}

/** What a part proves about a label, by the bars of completeness and soundness. */
function judgement({ f, whole }) {
  if (f >= NOTABLE && whole < BAR * f) return whole < NOTABLE ? "A part can prove what the whole does not show: such a proof is not sound." : "A part can prove too much.";
  if (whole < UNBELIEVED) return "The net does not believe it, so it should have no proof.";
  return f < BAR * whole ? "This is not yet a proof." : "This is a proof: as strong as the belief.";
}

function compared({ target, machine, method, searching }) {
  if (machine === null) return searching ? "The method is still learning its proof." : "Find the proofs to compare yours with a method's.";
  return `With as many ${POSITIONS}, ${method} makes it say ${quoted(target.name)} ${inPercent(machine)}.`;
}
