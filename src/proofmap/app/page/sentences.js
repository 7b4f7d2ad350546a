// Sentences with numbers in them.

import { number } from "./shared.js";

const LEVEL = 0.02; // probabilities that differ by less count as equal
const BELIEVED = 0.05; // a label with a lower probability counts as wrong
const quoted = (name) => `“${name}”`;

/** "1 pass", "2 passes". */
export const counted = (n, one, many = `${one}s`) => `${n.toLocaleString("en")} ${n === 1 ? one : many}`;

/** A share in percent, with one decimal where it is needed. */
export const percent = (share) => `${(100 * share).toFixed(1).replace(/\.0$/, "")} %`;

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

/** Who is ahead. `f` is the probability on the whole photo, `you` and `machine` those on the two proofs. */
export function duel({ name, f, you, machine, method, share, searching = false }) {
  const label = quoted(name);
  if (share === 0) return `Nothing is shown yet. Paint what makes the net say ${label}.`;
  if (you > f + 0.1 && f < BELIEVED) {
    return `You made the net believe ${label} with ${number(you)}; on the whole photo it is ${number(f)}. `
      + "A method that does this for wrong labels is not sound.";
  }
  if (machine === null) {
    const then = searching ? "The method is still learning its proof." : "Find the proofs to play against a method.";
    return `You get ${number(you)}; the whole photo gets ${number(f)}. ${then}`;
  }
  const against = `${method} gets ${number(machine)} with the same number of pixels, you get ${number(you)}`;
  if (f < BELIEVED) {
    return `${against}. The net hardly believes ${label} (${number(f)}), so a proof of it should fail. That is soundness.`;
  }
  const ahead = Math.abs(you - machine) < LEVEL ? "Level" : you > machine ? "You are ahead" : "The method is ahead";
  const yet = Math.max(you, machine) < f / 2 ? " Neither is a proof yet: show more pixels, or better ones." : "";
  return `${ahead}: ${against}. The whole photo gets ${number(f)}.${yet}`;
}
