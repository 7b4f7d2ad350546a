// Sentences made from numbers.

import { number } from "./shared.js";

const LEVEL = 0.02; // probabilities that differ by less are level
const BELIEVED = 0.05; // a label that the net believes less than this is taken as wrong
const quoted = (name) => `“${name}”`;

/** "1 pass", "2 passes". */
export const counted = (n, one, many = `${one}s`) => `${n.toLocaleString("en")} ${n === 1 ? one : many}`;

/** A share in percent, with one decimal where it is needed. */
export const percent = (share) => `${(100 * share).toFixed(1).replace(/\.0$/, "")} %`;

/** Seconds as people say them. */
export function duration(seconds) {
  if (seconds < 1.5) return "a second";
  if (seconds < 90) return `${Math.round(seconds)} s`;
  return `${Math.round(seconds / 60)} min`;
}

/** How far a job is: passes, passes per second, time left. */
export function progressWords({ what, step, steps, rate, seconds_left: left }, method) {
  const parts = [what === method ? method : `${method}: ${what}`];
  if (steps) parts.push(`${step.toLocaleString("en")} of ${counted(steps, "pass", "passes")}`);
  if (rate) parts.push(`${Math.round(rate).toLocaleString("en")} passes per second`);
  if (left !== null) parts.push(`${duration(left)} left`);
  return parts.join(" · ");
}

/** Where a job stands. */
export function stateWords({ state, place, message }) {
  if (state === "waiting") return place === 1 ? "Waiting: the next in the queue." : `Waiting: number ${place} in the queue.`;
  if (state === "running") return "The maps are being found.";
  if (state === "done") return "Done. Move the slider to play with the proofs.";
  if (state === "cancelled") return "Cancelled.";
  return `Failed: ${message || "no reason was given"}`;
}

/** Who is ahead, as a sentence. `f` is the belief in the whole photo, `you` and `machine` the net's answers to the parts. */
export function duel({ name, f, you, machine, method, share, searching = false }) {
  const label = quoted(name);
  if (share === 0) return `Nothing is shown yet. Paint what makes the net say ${label}.`;
  if (you > f + 0.1 && f < BELIEVED) {
    return `You made the net say ${label} with ${number(you)}, though it believes only ${number(f)} of the whole photo. `
      + "A method that does this for every wrong label is not sound.";
  }
  if (machine === null) {
    const then = searching ? "The machine is still looking for its proof." : "Find the proofs to play against the machine.";
    return `You get ${number(you)}, the net believes ${number(f)} of the whole photo. ${then}`;
  }
  const against = `${method} gets ${number(machine)} with as many pixels, you get ${number(you)}`;
  if (f < BELIEVED) {
    return `${against}. The net hardly believes ${label} (${number(f)}), so a proof of it should fail: that is soundness.`;
  }
  const ahead = Math.abs(you - machine) < LEVEL ? "Level" : you > machine ? "You are ahead" : "The machine is ahead";
  const yet = Math.max(you, machine) < f / 2 ? " Neither is a proof yet: that takes more pixels, or better ones." : "";
  return `${ahead}: ${against}. The net believes ${number(f)} of the whole photo.${yet}`;
}
