// Many photos, judged as one run: sent one after the other, then followed until the run can be opened.

import { get, post, remove } from "./api.js";
import { Photo } from "./photo.js";
import { asSentence, counted } from "./sentences.js";
import { byId } from "./shared.js";

const PAUSE = 1000; // milliseconds between two questions
const OVER = new Set(["done", "failed", "cancelled"]);

export class Batch {
  /** `choices` has net, methods and fill; `failed` is called with errors. */
  constructor(about, choices, failed) {
    Object.assign(this, { most: about.limits.batch, upload: about.limits.upload_bytes, choices, failed, files: [] });
    byId("choices").addEventListener("change", () => this.describe());
    byId("batch-run").addEventListener("click", () => this.press().catch(failed));
    byId("batch-close").addEventListener("click", () => this.close());
  }

  /** Offer to judge these files together. */
  offer(files) {
    const pictures = files.filter(({ type, size }) => type.startsWith("image/") && size <= this.upload);
    this.files = pictures.slice(0, this.most || pictures.length);
    const left = files.length - this.files.length;
    this.without = left ? ` ${counted(left, "file")} left out: not a picture, too large, or more than ${this.most}.` : "";
    byId("batch").hidden = false;
    byId("batch-link").hidden = true;
    byId("batch-heading").textContent = `${counted(this.files.length, "photo")} together`;
    this.offered = true;
    this.describe();
    this.button(this.most && this.files.length > 1 ? `Judge ${counted(this.files.length, "photo")}` : "");
    byId("batch-heading").focus();
  }

  /** What would be done, before it is. */
  describe() {
    if (!this.offered) return;
    byId("batch-words").textContent = !this.most
      ? "This server keeps no runs. Start it with: proofmap serve --runs FOLDER. Then drop the photos again; or drop one photo."
      : `They become a run with a report: ${this.choices.methods.join(", ")} on all of them. Choose the net and the methods under “How proofs are found”.${this.without}`;
  }

  /** The button with these words; hidden without any. */
  button(words) {
    byId("batch-run").hidden = !words;
    byId("batch-run").textContent = words;
  }

  async press() {
    if (this.run) {
      await remove(`api/batches/${this.run}`);
      return;
    }
    if (this.sending) {
      this.sending = false;
      return;
    }
    this.sending = true;
    this.offered = false;
    this.button("Sending … (stop)");
    try {
      const photos = [];
      for (const blob of this.files) {
        if (!this.sending) break;
        byId("batch-words").textContent = `Sending ${photos.length + 1} of ${this.files.length}: ${blob.name}`;
        photos.push((await Photo.sent({ blob })).id);
      }
      if (!this.sending) return this.offer(this.files);
      const { net, methods, fill } = this.choices;
      await this.follow(await post("api/batches", { photos, net, methods, fill, seed: 0 }));
    } catch (problem) {
      byId("batch-words").textContent = asSentence(problem.message);
      this.button("Try again");
    } finally {
      this.sending = false;
      this.run = null;
    }
    return undefined;
  }

  /** Show how far the batch is, until it is over. */
  async follow(answer) {
    this.run = answer.run;
    for (let now = answer; ; now = await get(`api/batches/${answer.run}`)) {
      byId("batch-words").textContent = words(now);
      byId("batch-link").hidden = !now.begun;
      byId("batch-link").href = `runs/${now.run}`;
      byId("batch-link").textContent = now.state === "done" ? "Open the report" : "Watch the run";
      this.button(OVER.has(now.state) ? "" : now.state === "waiting" ? "Waiting … (stop)" : "Judging … (stop)");
      if (OVER.has(now.state)) return;
      await new Promise((resolve) => setTimeout(resolve, PAUSE));
    }
  }

  close() {
    this.sending = false;
    byId("batch").hidden = true;
  }
}

function words({ state, message, photos, name }) {
  if (state === "waiting") return `${counted(photos, "photo")} wait in the queue.`;
  if (state === "running") return `${counted(photos, "photo")} are being judged. The run ${name} shows its progress.`;
  if (state === "done") return `${counted(photos, "photo")} are judged. The run ${name} is kept in the folder of --runs.`;
  if (state === "cancelled") return "Stopped. What was computed stays in the run.";
  return `Failed: ${message || "no reason was given"}`;
}
