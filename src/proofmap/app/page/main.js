// The whole page: a photo (or a row, or a text), what the net believes about it, a job that finds proofs, and a painted proof.

import { get, Silent } from "./api.js";
import { Choices } from "./choices.js";
import { Duel } from "./duel.js";
import { cancelJob, Follower, leaveJob, startJob } from "./job.js";
import { Labels } from "./labels.js";
import { inAddress, linkTo, maskFrom, putInAddress, recall, remember } from "./memory.js";
import { Demonstration } from "./idea.js";
import { listKind } from "./lists.js";
import { photoKind, showPart } from "./photo.js";
import { Proofs } from "./proofs.js";
import { byId, make, setUpCopy } from "./shared.js";
import { asSentence, ITEM, progressWords } from "./sentences.js";
import { buttonOf, isOpen, next, stageWords } from "./stages.js";
import { Tabs } from "./tabs.js";

const SHEET = ITEM === "row" || ITEM === "text" ? [] : [["sheet.png", "Sheet of pictures"]];
const FILES = [...SHEET, ["page.html", "Page"], ["maps.safetensors", "Maps"]];

const KIND = ITEM === "photo" ? photoKind : listKind;

class Page {
  constructor(about) {
    this.about = about;
    this.stage = "empty";
    byId("about").textContent = `Proofmap ${about.version} on ${about.device}`;
    this.choices = new Choices(about, {
      changedNet: () => this.tried(() => this.changeNet()),
      changed: () => this.draw(),
      press: () => this.action && this.tried(() => this.run()),
    });
    this.labels = new Labels(about, {
      changed: (words) => {
        byId("run-words").textContent = words;
        this.draw();
        this.startDuel();
      },
      failed: (problem) => this.complain(problem),
      showPart,
    });
    this.labels.ask = async (label) => {
      const { labels } = await this.photo.beliefs(this.choices.net, [label]);
      return labels.find((found) => found.label === label);
    };
    this.proofs = new Proofs(KIND.Cell, KIND.each);
    this.tabs = new Tabs(() => this.proofs.follow());
    this.fitted = this.fit();
    this.duel = new Duel((problem) => this.complain(problem), KIND.Board, KIND.part);
    this.follower = new Follower({
      answered: (answer) => this.hear(answer),
      lost: (problem) => this.offerAgain(problem),
      silent: (problem) => {
        this.unheard = true;
        this.notice(`${problem.message} This page continues when the server answers.`);
      },
    });
    KIND.setUp(about, (source) => this.tried(() => this.take(source)), (words) => this.notice(words));
    byId("fill").addEventListener("change", () => this.tried(() => this.changeFill()));
    byId("cancel").addEventListener("click", () => this.tried(() => this.stop()));
    byId("share-link").addEventListener("click", () => this.tried(() => this.shareLink()));
    addEventListener("hashchange", () => location.reload()); // a link to another job was pasted into the address
  }

  /** Go to the next stage; the button and the words follow. `answer` is the server's about the job. */
  happen(event, answer = {}) {
    const before = this.stage;
    this.stage = next(before, event);
    const words = stageWords(this.stage, answer);
    if (this.stage !== before || event === "waiting") byId("state").textContent = words;
    for (const id of ["progress-bar", "progress-words", "cancel"]) byId(id).hidden = !isOpen(this.stage);
    byId("cancel").disabled = this.stage === "stopping";
    document.documentElement.dataset.stage = this.stage;
    this.draw();
  }

  /** The button that starts a job. It keeps its place and its focus in every stage. */
  draw() {
    const { action, words } = buttonOf(this.stage, {
      changed: this.changed, labels: this.labels?.list.length ?? 0, methods: this.choices?.methods.length ?? 0,
    });
    this.action = action;
    byId("run").textContent = words;
    byId("run").setAttribute("aria-disabled", String(!action));
  }

  /** Whether the choices differ from those of the job. */
  get changed() {
    return JSON.stringify(this.asked()) !== JSON.stringify(this.request);
  }

  /** The request for the choices of now. */
  asked() {
    const { net, fill, methods } = this.choices ?? {};
    return { photo: this.photo?.id, net, labels: this.labels?.list.map(({ label }) => label), methods, fill, seed: 0 };
  }

  /** Find out which methods fit the net. */
  fit() {
    return this.choices.fit().catch((problem) => this.complain(problem));
  }

  async stop() {
    this.happen("stop");
    if (!this.job) return; // its request is under way; run() stops it
    try {
      await cancelJob(this.job);
    } catch (problem) {
      this.happen("refused");
      throw problem;
    }
    this.follower.wake();
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
    this.notice(asSentence(problem.message));
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
    this.newest = source;
    byId("photo-words").textContent = `Reading the ${ITEM} …`;
    let photo;
    try {
      photo = await KIND.Sent.sent(source);
    } finally {
      byId("photo-words").textContent = this.photo?.name ?? "";
    }
    if (this.newest !== source) return; // another photo was chosen meanwhile
    this.leaveJob();
    this.happen("photo");
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
    Object.assign(this.labels.search, { net, photo: photo.id });
    this.labels.show({ labels: [] });
    byId("results").hidden = true;
    byId("photo-words").textContent = `${photo.name}: asking …`;
    this.makeRoom();
    this.placed = this.placePictures();
    this.placed.catch(() => null); // shown where it is awaited
    let beliefs;
    try {
      beliefs = await photo.beliefs(net, labels ?? []);
    } catch (problem) {
      byId("photo-words").textContent = photo.name;
      if (photo === this.photo) this.happen("refused");
      throw problem;
    }
    if (photo !== this.photo || net !== this.choices.net) return false;
    this.labels.show(beliefs, labels);
    this.happen("believed");
    this.startDuel();
    byId("photo-words").textContent = photo.name;
    for (const id of ["believed", "choices", "results"]) byId(id).hidden = false;
    this.suggest(photo, net).catch(() => null); // the page is whole without them
    return true;
  }

  /** Add labels that the net sees in parts of the photo. */
  async suggest(photo, net) {
    const { labels } = await photo.kept(() => get(`api/photos/${photo.id}/suggestions`, { net }));
    if (photo === this.photo && net === this.choices.net) this.labels.suggest(labels);
  }

  /** A link to the job with the painted proof. */
  async shareLink() {
    const field = byId("link");
    field.value = await linkTo(this.job, byId("target").value, this.duel.easel.mask);
    byId("link-part").hidden = false;
    field.select();
    try {
      await navigator.clipboard.writeText(field.value);
      byId("link-words").textContent = "The link is copied. It works while this server keeps the job.";
    } catch {
      byId("link-words").textContent = "Copy the link. It works while this server keeps the job.";
    }
  }

  /** Show the painted proof that the address names. */
  async showShared({ label, mask }) {
    const found = await maskFrom(mask, this.pictures.count);
    if (!found) {
      this.notice("The painted proof in this link cannot be read: it was copied in part, or is of another net.");
      return;
    }
    byId("target").value = label;
    if (!byId("target").value) byId("target").selectedIndex = 0;
    this.duel.easel.replace(found);
    this.tabs.open("paint");
  }

  /** After the first photo the invitation becomes small. */
  makeRoom() {
    if (document.body.classList.contains("has-photo")) return;
    document.body.classList.add("has-photo");
    this.demonstration?.node.remove();
    if (ITEM === "photo") byId("invitation").textContent = "Drop or paste another photo.";
    const samples = byId("sample-part");
    if (samples.contains(document.activeElement)) samples.querySelector("summary").focus();
    samples.open = false;
  }

  /** Load what is needed to draw the photo, row or text, for the page and for painting. */
  async placePictures() {
    const { photo } = this;
    const { net, fill } = this.choices;
    const pictures = await KIND.placed(photo, { net, fill });
    if (photo !== this.photo || net !== this.choices.net || fill !== this.choices.fill) return;
    this.pictures = pictures;
    KIND.shown(pictures);
    this.startDuel();
  }

  async changeNet() {
    if (!this.photo) {
      this.fitted = this.fit();
      return;
    }
    this.leaveJob();
    this.happen("net");
    this.fitted = this.fit();
    if (await this.show()) await this.run();
  }

  async changeFill() {
    this.draw();
    if (!this.photo) return;
    this.placed = this.placePictures();
    await this.placed;
  }

  startDuel() {
    const { list } = this.labels;
    byId("tab-paint").hidden = !list.length;
    byId("share-link").hidden = !this.job;
    byId("link-part").hidden = true;
    if (!list.length || this.pictures?.of !== this.photo) return;
    const { net, fill } = this.choices;
    const { methods = [] } = this.proofs.request ?? {};
    this.duel.begin(this.photo, this.pictures, { net, fill, labels: list, job: this.job, methods, searching: isOpen(this.stage), proofs: this.proofs });
  }

  /** Find proofs of the chosen labels. */
  async run() {
    const { photo } = this;
    await this.fitted;
    if (photo !== this.photo) return;
    const before = this.asked();
    if (!before.labels.length || !before.methods.length) return;
    this.leaveJob();
    this.request = before;
    this.happen("run");
    const turn = this.turn = Symbol("run");
    let job;
    try {
      const started = photo.kept(() => startJob({ ...before, photo: photo.id }));
      [{ job }] = await Promise.all([started, this.placed]);
    } catch (problem) {
      if (turn === this.turn) this.happen("refused");
      throw problem;
    }
    if (turn !== this.turn || this.stage === "stopping") { // another photo, net or press came meanwhile, or a stop
      await leaveJob(job);
      if (turn === this.turn) this.happen("cancelled");
      return;
    }
    const request = { ...before, photo: photo.id };
    this.own = true;
    putInAddress(job);
    this.begin(job, request);
    await remember(job, request, photo);
  }

  begin(job, request) {
    this.job = job;
    this.request = request;
    this.happen("job");
    byId("run-words").textContent = "";
    byId("saving").hidden = true;
    this.proofs.begin(job, request, this.labels.list, this.pictures);
    this.startDuel();
    this.follower.follow(job);
  }

  /** Leave the job of this tab; it stops if it still runs and nobody else wants it. */
  leaveJob() {
    const { job } = this;
    this.follower.stop();
    this.turn = this.job = this.request = null;
    if (job && this.own && isOpen(this.stage)) leaveJob(job).catch(() => null);
  }

  /** Show an answer of the server about the job. */
  async hear(answer) {
    if (this.unheard) this.notice("");
    this.unheard = false;
    const { state, events, request: { labels, methods } } = answer;
    this.happen(state, { ...answer, labels: labels.length, methods: methods.length });
    const open = isOpen(state);
    const progress = events.findLast(({ kind }) => kind === "progress");
    if (state === "waiting") byId("progress-words").textContent = "";
    else if (progress) {
      byId("progress-bar").value = progress.steps ? progress.step / progress.steps : 0;
      byId("progress-words").textContent = progressWords(progress, answer.request.methods[progress.method]);
    }
    for (const event of events) await this.proofs.hear(event);
    if (this.job !== answer.job) return;
    if (!open || events.some(({ kind }) => kind === "scored")) this.startDuel();
    if (state === "done") this.offerFiles(answer);
    else if (!open) this.proofs.giveUp();
  }

  offerFiles({ job, command }) {
    byId("files").replaceChildren(...FILES.map(([file, words]) =>
      make("a", { class: "quiet", href: `api/jobs/${job}/files/${file}`, download: file }, words)));
    byId("command").textContent = command;
    byId("copy").textContent = "Copy";
    byId("saving").hidden = false;
  }

  /** Return to the job in the address. */
  async resume({ job, ...shared }) {
    let answer;
    try {
      answer = await get(`api/jobs/${job}`);
    } catch (problem) {
      if (problem instanceof Silent) throw problem;
      this.job = job;
      this.offerAgain(problem);
      return;
    }
    const { request, photo_name: name } = answer;
    this.choices.set(request);
    const kept = recall(job);
    this.own = kept !== null; // otherwise another tab asked for it
    this.photo = new KIND.Sent({ photo: request.photo, name }, kept?.source ?? null);
    if (!await this.show(request.labels)) return;
    await this.placed;
    this.begin(job, request);
    if (shared.mask) await this.showShared(shared);
  }

  /** Called when the server does not have the job, for the reason that it gave. */
  offerAgain({ message }) {
    const kept = recall(this.job);
    const words = asSentence(message.replace("; run it again", ""));
    this.job = this.request = null;
    this.happen("lost");
    if (!kept?.source) this.notice(`${words} Choose a ${ITEM} to begin.`);
    else this.notice(words, "Run it again", () => this.tried(() => this.again(kept)));
  }

  async again({ request, source }) {
    this.choices.set(request);
    const photo = await KIND.Sent.sent(source);
    this.happen("photo");
    this.photo = photo;
    if (await this.show(request.labels)) await this.run();
  }
}

async function start() {
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
  if (ITEM === "photo") page.demonstration = await Demonstration.shown();
  const named = inAddress();
  if (named.job) await page.tried(() => page.resume(named));
  document.documentElement.dataset.ready = "true";
}

start();
