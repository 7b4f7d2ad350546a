// The photo: dropped, pasted, chosen or a sample; sent to the server, and sent again if the server no longer has it.

import { picture, post, send, Subject } from "./api.js";
import { Easel } from "./easel.js";
import { composite, pixelsOf } from "./pixels.js";
import { PhotoCell } from "./proofs.js";
import { byId, inPercent, make, pictureCanvas } from "./shared.js";

const FIRST_SAMPLES = 5; // the others are behind a fold

/** A photo; its source is its bytes or the sample's name. */
export class Photo extends Subject {
  constructor({ photo, name }, source) {
    super(photo, source);
    this.name = name.replace(/^sample:/, "");
  }

  static async sent(source) {
    const answer = source.sample ? await post("api/photos", { sample: source.sample }) : await send("api/photos", source.blob);
    return new Photo(answer, source);
  }

  view(net) {
    return this.kept(() => picture(`api/photos/${this.id}/view`, { net }));
  }

  fill(net, fill) {
    return this.kept(() => picture(`api/photos/${this.id}/fill`, { net, fill }));
  }
}

/** Set up all ways to choose photos; `took` is called with a source, `refused` with a message. */
export function setUpPhotos(about, took, refused) {
  const most = about.limits.upload_bytes;
  const take = (blob) => {
    const accepted = `JPEG, PNG or WebP, up to ${most / 1e6} MB.`;
    if (!blob.type.startsWith("image/")) return refused(`${blob.name} is not a picture. ${accepted}`);
    if (blob.size > most) return refused(`${blob.name} has ${Math.ceil(blob.size / 1e6)} MB. ${accepted}`);
    return took({ blob });
  };
  byId("file").addEventListener("change", (event) => {
    const [file] = event.target.files;
    if (file) take(file);
    event.target.value = ""; // the same file may be chosen again
  });
  about.samples.forEach(({ name }, place) => {
    const button = make("button", { type: "button", class: "quiet sample" },
      make("img", { src: `api/samples/${encodeURIComponent(name)}`, alt: "", width: 96, height: 72, loading: "lazy" }), name);
    button.addEventListener("click", () => took({ sample: name }));
    byId(place < FIRST_SAMPLES ? "samples" : "more-samples").append(button);
  });
  byId("more-part").hidden = about.samples.length <= FIRST_SAMPLES;
  addEventListener("paste", (event) => {
    if (event.clipboardData.files.length) take(pictureIn([...event.clipboardData.files]));
  });
  addEventListener("dragover", (event) => {
    event.preventDefault();
    byId("drop").classList.add("over");
  });
  addEventListener("dragleave", (event) => event.relatedTarget ?? byId("drop").classList.remove("over"));
  addEventListener("drop", (event) => {
    event.preventDefault();
    byId("drop").classList.remove("over");
    const files = [...event.dataTransfer.files];
    if (files.length) take(pictureIn(files));
    else refused("That is not a file. Drop a photo of this computer.");
  });
}

/** The first picture among files, or the first file. */
const pictureIn = (files) => files.find((file) => file.type.startsWith("image/")) ?? files[0];

/** What the net sees and the fill as pixels, for the page and for painting. */
async function placed(photo, { net, fill }) {
  const [image, hidden] = await Promise.all([photo.view(net), photo.fill(net, fill)]);
  const size = { width: image.naturalWidth, height: image.naturalHeight };
  return { of: photo, image, size, count: size.width * size.height, hidden, view: pixelsOf(image, size), fill: pixelsOf(hidden, size) };
}

/** Show the photo as the net sees it. */
function shown({ image, size }) {
  const canvas = byId("view");
  Object.assign(canvas, size);
  canvas.getContext("2d").drawImage(image, 0, 0);
  canvas.hidden = false;
}

/** Outline a part of the photo, in which the net sees another label; null removes the outline. */
export function showPart(seen) {
  const box = byId("part-box");
  if (!box) return;
  box.hidden = !seen;
  byId("part-words").textContent = seen ? `This part alone makes the net say “${seen.name}” ${inPercent(seen.part)}; the whole photo ${inPercent(seen.f)}.` : "";
  if (!seen) return;
  const inShares = (value) => `${100 * value}%`;
  [box.style.left, box.style.top, box.style.width, box.style.height] = seen.box.map(inShares);
}

/** What the net was shown, with a caption. */
function part(photo, name, kept) {
  const canvas = pictureCanvas(photo.size, "part", `What the net sees of the proof: ${name}`);
  composite(canvas, photo, kept);
  return make("figure", {}, canvas, make("figcaption", {}, name));
}

/** What the page needs to be about photos. */
export const photoKind = { Sent: Photo, setUp: setUpPhotos, placed, shown, part, Cell: PhotoCell, Board: Easel, each: false };
