// A job on the server, followed with a cursor: short requests, less often while the tab is hidden.

import { get, post, Refused, remove, Silent } from "./api.js";
import { byId, make } from "./shared.js";
import { counted } from "./sentences.js";

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

/** The waiting and running jobs of the server, of all tabs, each with a button that cancels it. */
export class Queue {
  constructor(cancelled) {
    this.cancelled = cancelled;
    byId("queue").addEventListener("toggle", () => this.refresh());
  }

  async refresh(own = this.own) {
    this.own = own;
    const { jobs } = await get("api/jobs").catch(() => ({ jobs: [] }));
    const open = jobs.filter(({ state }) => !OVER.has(state));
    byId("queue").hidden = !open.some(({ job }) => job !== own);
    byId("queue-words").textContent = `Queue: ${counted(open.length, "job")}`;
    const focused = document.activeElement?.dataset?.job;
    byId("queue-list").replaceChildren(...open.reverse().map((job) => {
      const where = job.state === "running" ? "running" : `place ${job.place}`;
      const what = `${job.photo_name}, ${job.request.methods.join(", ")}, ${counted(job.request.labels.length, "label")}`;
      const words = `${where}: ${what}${job.job === own ? " (this tab)" : ""}`;
      const button = make("button", { type: "button", class: "quiet", "data-job": job.job, "aria-label": `Cancel ${words}` }, "Cancel");
      button.addEventListener("click", async () => {
        await cancelJob(job.job).catch(() => null);
        this.cancelled(job.job);
        this.refresh();
      });
      return make("li", {}, make("span", {}, words), button);
    }));
    if (focused) byId("queue-list").querySelector(`[data-job="${focused}"]`)?.focus();
  }
}
