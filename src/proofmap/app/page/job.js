// A job on the server, followed with a cursor: short requests, less often while the tab is hidden.

import { get, post, Refused, remove, Silent } from "./api.js";

const SOON = 300; // milliseconds
const LATER = 2000;
const OVER = new Set(["done", "failed", "cancelled"]);

/** Follows one job. Calls `answered` with each answer, `lost` if the server does not have the job, `silent` if it does not answer. */
export class Follower {
  constructor({ answered, lost, silent }) {
    Object.assign(this, { answered, lost, silent });
    document.addEventListener("visibilitychange", () => document.hidden || this.wake());
  }

  follow(job) {
    this.job = job;
    this.after = 0;
    this.over = false;
    this.wake();
  }

  stop() {
    this.job = null;
    clearTimeout(this.timer);
  }

  /** Ask now. */
  wake() {
    if (!this.job || this.over || this.asking) return;
    clearTimeout(this.timer);
    this.ask();
  }

  async ask() {
    const job = this.job;
    this.asking = true;
    let pause = document.hidden ? LATER : SOON;
    try {
      const answer = await get(`api/jobs/${job}`, { after: this.after });
      if (job === this.job) {
        this.after = answer.last;
        this.over = OVER.has(answer.state);
        await this.answered(answer);
      }
    } catch (problem) {
      if (problem instanceof Refused && problem.status === 404) {
        if (job !== this.job) return;
        this.over = true;
        this.lost(problem);
      } else if (problem instanceof Refused || problem instanceof Silent) {
        pause = LATER;
        this.silent(problem);
      } else throw problem;
    } finally {
      this.asking = false;
      if (job !== this.job) this.wake();
      else if (!this.over) this.timer = setTimeout(() => this.wake(), pause);
    }
  }
}

export const startJob = (request) => post("api/jobs", request);
export const cancelJob = (job) => remove(`api/jobs/${job}`);
/** The same, unless someone else asked for the job, too. */
export const leaveJob = (job) => remove(`api/jobs/${job}?leave=true`);
