// The photo: dropped, pasted, chosen or a sample; sent to the server, and sent again if the server no longer has it.

import { get, picture, post, Refused, send } from "./api.js";
import { byId, make } from "./shared.js";

/** A photo that the server knows by its id, with what is needed to send it again: its bytes or the sample's name. */
export class Photo {
  constructor({ photo, name }, source) {
    this.id = photo;
    this.name = name.replace(/^sample:/, "");
    this.source = source;
  }

  static async sent(source) {
    const answer = source.sample ? await post("api/photos", { sample: source.sample }) : await send("api/photos", source.blob);
    return new Photo(answer, source);
  }

  /** Do something with the photo; it is sent again if the server was restarted. */
  async kept(work) {
    try {
      return await work();
    } catch (refusal) {
      if (!(refusal instanceof Refused) || refusal.status !== 404 || !this.source) throw refusal;
      this.id = (await Photo.sent(this.source)).id;
      return work();
    }
  }

  view(net) {
    return this.kept(() => picture(`api/photos/${this.id}/view`, { net }));
  }

  fill(net, fill) {
    return this.kept(() => picture(`api/photos/${this.id}/fill`, { net, fill }));
  }

  beliefs(net, labels = []) {
    return this.kept(() => get(`api/photos/${this.id}/beliefs`, { net, number: 10, labels }));
  }
}

/** Set up all ways to choose a photo; `took` is called with a source, `refused` with a message. */
export function setUpPhotos(about, took, refused) {
  const most = about.limits.upload_bytes;
  const take = (blob) => {
    if (!blob) return refused("That is not a picture. Drop a photo: PNG, JPEG, WebP or similar.");
    if (blob.size > most) return refused(`The photo has ${megabytes(blob.size)}; at most ${megabytes(most)} are accepted.`);
    return took({ blob });
  };
  byId("file").addEventListener("change", (event) => {
    if (event.target.files.length) take(event.target.files[0]);
    event.target.value = ""; // the same file may be chosen again
  });
  byId("samples").append(...about.samples.map(({ name }) => {
    const button = make("button", { type: "button", class: "quiet" }, name);
    button.addEventListener("click", () => took({ sample: name }));
    return button;
  }));
  addEventListener("paste", (event) => {
    const blob = pictureIn(event.clipboardData.files);
    if (blob) take(blob);
  });
  addEventListener("dragover", (event) => {
    event.preventDefault();
    byId("drop").classList.add("over");
  });
  addEventListener("dragleave", (event) => event.relatedTarget ?? byId("drop").classList.remove("over"));
  addEventListener("drop", (event) => {
    event.preventDefault();
    byId("drop").classList.remove("over");
    take(pictureIn(event.dataTransfer.files));
  });
}

const pictureIn = (files) => [...files].find((file) => file.type.startsWith("image/"));
const megabytes = (bytes) => `${(bytes / 2 ** 20).toFixed(bytes < 2 ** 20 ? 2 : 0)} MB`;
