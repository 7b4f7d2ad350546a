// The whole page: a photo, what the net believes about it, a job that finds proofs, and a painted proof.

import { get, Silent } from "./api.js";
import { Choices } from "./choices.js";
import { Duel } from "./duel.js";
import { cancelJob, Follower, Queue, startJob } from "./job.js";
import { Labels } from "./labels.js";
import { jobInAddress, putInAddress, recall, remember } from "./memory.js";
import { Photo, setUpPhotos } from "./photo.js";
import { pixelsOf } from "./pixels.js";
import { Proofs } from "./proofs.js";
import { byId, make, setUpCopy, setUpTheme } from "./shared.js";
import { progressWords, stateWords } from "./sentences.js";

const FILES = [["sheet.png", "Sheet of pictures"], ["page.html", "Page"], ["maps.npz", "Maps (npz)"], ["maps.safetensors", "Maps (safetensors)"]];
const OPEN = new Set(["waiting", "running"]);

class Page {
  constructor(about) {
    this.about = about;
    byId("about").textContent = `Proofmap ${about.version} on ${about.device}`;
    byId("runs-link").hidden = !about.runs;
    this.choices = new Choices(about, { changedNet: () => this.tried(() => this.changeNet()), run: () => this.tried(() => this.run()) });
    this.labels = new Labels(about, {
      changed: (words) => {
        byId("run-words").textContent = words;
        this.startDuel();
      },
      failed: (problem) => this.complain(problem),
    });
    this.labels.ask = async (label) => {
      const { labels } = await this.photo.beliefs(this.choices.net, [label]);
      return labels.find((found) => found.label === label);
    };
    this.proofs = new Proofs();
    this.duel = new Duel((problem) => this.complain(problem));
    this.queue = new Queue(() => this.follower.wake());
    this.follower = new Follower({
      answered: (answer) => this.hear(answer),
      lost: () => this.offerAgain(),
      silent: (problem) => {
        this.unheard = true;
        this.notice(`${problem.message} This page continues when the server answers.`);
      },
    });
    setUpPhotos(about, (source) => this.tried(() => this.take(source)), (words) => this.notice(words));
    byId("fill").addEventListener("change", () => this.tried(() => this.changeFill()));
    byId("cancel").addEventListener("click", () => this.tried(async () => {
      await cancelJob(this.job);
      this.follower.wake();
    }));
  }

  /** Do something, and show its errors. */
  async tried(work) {
    this.notice("");
    try {
      await work();
    } catch (problem) {
      this.complain(problem);
    }
  }

  complain(problem) {
    this.notice(problem.message);
    if (!(problem instanceof TypeError)) return;
    throw problem;
  }

  /** Show a notice, with a button if there is something to do about it. */
  notice(words, name = "", action = null) {
    const button = byId("notice-action");
    byId("notice").hidden = !words;
    byId("notice-words").textContent = words;
    button.hidden = !action;
    button.textContent = name;
    button.onclick = action;
  }

  /** A new photo: show it and what the net believes about it, and start a job. */
  async take(source) {
    this.leaveJob();
    byId("photo-words").textContent = "Reading the photo …";
    this.newest = source;
    let photo;
    try {
      photo = await Photo.sent(source);
    } finally {
      byId("photo-words").textContent = this.photo?.name ?? "";
    }
    if (this.newest !== source) return; // another photo was chosen meanwhile
    this.photo = photo;
    if (await this.show()) await this.run();
  }

  /** Show the photo; `labels` are those to prove, by default the most probable ones and a wrong one.
   *
   * Returns, as soon as the labels are known, whether the photo and the net are still the chosen ones. The pictures may come
   * later; `placed` is their promise.
   */
  async show(labels = null) {
    const { photo } = this;
    const { net } = this.choices;
    this.labels.search.net = net;
    this.labels.show({ labels: [] });
    byId("proofs").hidden = byId("paint").hidden = true;
    byId("photo-words").textContent = `${photo.name}: asking the net …`;
    this.makeRoom();
    this.placed = this.placePictures();
    this.placed.catch(() => null); // shown where it is awaited
    const beliefs = await photo.beliefs(net, labels ?? []);
    if (photo !== this.photo || net !== this.choices.net) return false;
    this.labels.show(beliefs, labels);
    this.startDuel();
    byId("photo-words").textContent = photo.name;
    for (const id of ["believed", "choices"]) byId(id).hidden = false;
    return true;
  }

  /** After the first photo the invitation becomes small. */
  makeRoom() {
    if (document.body.classList.contains("has-photo")) return;
    document.body.classList.add("has-photo");
    byId("invitation").textContent = "Drop or paste another photo here";
    const samples = byId("sample-part");
    if (samples.contains(document.activeElement)) samples.querySelector("summary").focus();
    samples.open = false;
  }

  /** Load what the net sees and the fill as pixels, for the page and for painting. */
  async placePictures() {
    const { photo } = this;
    const { net, fill } = this.choices;
    const [image, hidden] = await Promise.all([photo.view(net), photo.fill(net, fill)]);
    if (photo !== this.photo || net !== this.choices.net || fill !== this.choices.fill) return;
    const size = { width: image.naturalWidth, height: image.naturalHeight };
    this.pictures = { of: photo, image, size, view: pixelsOf(image, size), fill: pixelsOf(hidden, size) };
    const canvas = byId("view");
    Object.assign(canvas, size);
    canvas.getContext("2d").drawImage(image, 0, 0);
    canvas.hidden = false;
    this.startDuel();
  }

  async changeNet() {
    if (!this.photo) return;
    this.leaveJob();
    if (await this.show()) await this.run();
  }

  async changeFill() {
    if (!this.photo) return;
    this.placed = this.placePictures();
    await this.placed;
  }

  startDuel() {
    const { list } = this.labels;
    byId("paint").hidden = !list.length;
    if (!list.length || this.pictures?.of !== this.photo) return;
    const { net, fill } = this.choices;
    const { methods = [] } = this.proofs.request ?? {};
    this.duel.begin(this.photo, this.pictures, { net, fill, labels: list, job: this.job, methods, searching: OPEN.has(this.state), proofs: this.proofs });
  }

  /** Find proofs of the chosen labels. */
  async run() {
    const labels = this.labels.list.map(({ label }) => label);
    if (!labels.length) {
      byId("run-words").textContent = "Press a label first: every proof is of one label.";
      return;
    }
    const { net, fill, methods } = this.choices;
    const { photo } = this;
    this.leaveJob();
    const started = photo.kept(() => startJob({ photo: photo.id, net, labels, methods, fill, seed: 0 }));
    const [{ job }] = await Promise.all([started, this.placed]);
    if (photo !== this.photo || net !== this.choices.net) {
      await cancelJob(job);
      return;
    }
    const request = { photo: photo.id, net, labels, methods, fill, seed: 0 };
    putInAddress(job);
    this.begin(job, request);
    await remember(job, request, photo);
  }

  begin(job, request) {
    this.job = job;
    this.state = "waiting";
    byId("run-words").textContent = "";
    byId("proofs").hidden = false;
    byId("saving").hidden = true;
    this.proofs.begin(job, request, this.labels.list, this.pictures);
    this.startDuel();
    this.follower.follow(job);
  }

  /** Cancel the job of this tab if it still runs. */
  leaveJob() {
    const { job } = this;
    this.follower.stop();
    this.job = null;
    if (job && OPEN.has(this.state)) cancelJob(job).catch(() => null);
    this.state = null;
  }

  /** Show an answer of the server about the job. */
  async hear(answer) {
    if (this.unheard) this.notice("");
    this.unheard = false;
    const { state, events } = answer;
    const open = OPEN.has(state);
    if (state !== this.state || state === "waiting") byId("state").textContent = stateWords(answer);
    byId("progress").hidden = !open;
    byId("cancel").textContent = state === "waiting" ? "Leave the queue" : "Cancel";
    const progress = events.findLast(({ kind }) => kind === "progress");
    if (state === "waiting") byId("progress-words").textContent = "";
    else if (progress) {
      byId("progress-bar").value = progress.steps ? progress.step / progress.steps : 0;
      byId("progress-words").textContent = progressWords(progress, answer.request.methods[progress.method]);
    }
    this.state = state;
    for (const event of events) await this.proofs.hear(event);
    if (this.job !== answer.job) return;
    if (!open || events.some(({ kind }) => kind === "scored")) this.startDuel();
    if (state === "done") this.offerFiles(answer);
    else if (!open) this.proofs.giveUp();
    if (!open || (!document.hidden && !(Date.now() - this.queued < 1500))) {
      this.queued = Date.now();
      await this.queue.refresh(this.job);
    }
  }

  offerFiles({ job, command }) {
    byId("files").replaceChildren(...FILES.map(([file, words]) =>
      make("a", { class: "quiet", href: `api/jobs/${job}/files/${file}`, download: file }, words)));
    byId("command").textContent = command;
    byId("copy").textContent = "Copy";
    byId("saving").hidden = false;
  }

  /** Return to the job in the address. */
  async resume(job) {
    let answer;
    try {
      answer = await get(`api/jobs/${job}`);
    } catch (problem) {
      if (problem instanceof Silent) throw problem;
      this.job = job;
      this.offerAgain();
      return;
    }
    const { request, photo_name: name } = answer;
    this.choices.set(request);
    this.photo = new Photo({ photo: request.photo, name }, recall(job)?.source ?? null);
    if (!await this.show(request.labels)) return;
    await this.placed;
    this.begin(job, request);
  }

  /** Called when the server does not have the job: it was restarted, or the job is too old. */
  offerAgain() {
    const kept = recall(this.job);
    const words = "The server was restarted and no longer has this job.";
    byId("progress").hidden = true;
    byId("state").textContent = "";
    this.state = null;
    if (!kept?.source) this.notice(`${words} Drop the photo again.`);
    else this.notice(words, "Run it again", () => this.tried(() => this.again(kept)));
  }

  async again({ request, source }) {
    this.choices.set(request);
    this.photo = await Photo.sent(source);
    if (await this.show(request.labels)) await this.run();
  }
}

async function start() {
  setUpTheme();
  setUpCopy();
  let about;
  try {
    about = await get("api/about");
  } catch (problem) {
    byId("notice").hidden = false;
    byId("notice-words").textContent = problem.message;
    return;
  }
  const page = new Page(about);
  const job = jobInAddress();
  if (job) await page.tried(() => page.resume(job));
  document.documentElement.dataset.ready = "true";
}

start();
