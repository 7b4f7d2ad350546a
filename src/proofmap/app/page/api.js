// Requests to the server. Every answer is JSON; a refusal becomes an error whose message says what to do.

/** A refusal of the server: its status and message. */
export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** The server does not answer. */
export class Silent extends Error {
  constructor() {
    super("The server does not answer. Is proofmap serve still running?");
  }
}

/** The address of a route with its query; undefined values are left out, and a list becomes one parameter per value. */
export function address(path, query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== undefined)
    .flatMap(([name, value]) => [value].flat().map((one) => [name, one]));
  return given.length ? `${path}?${new URLSearchParams(given)}` : path;
}

async function asked(path, options) {
  let response;
  try {
    response = await fetch(path, { cache: "no-store", ...options });
  } catch {
    throw new Silent();
  }
  if (response.ok) return response.status === 204 ? null : response.json();
  const { error } = await response.json().catch(() => ({}));
  throw new Refused(response.status, error ?? `The server answered ${response.status}.`);
}

export const get = (path, query) => asked(address(path, query));
export const remove = (path) => asked(path, { method: "DELETE" });
export const send = (path, blob, query = {}) =>
  asked(address(path, { name: blob.name, ...query }), { method: "POST", body: blob, headers: { "Content-Type": blob.type || "image/unknown" } });
export const post = (path, value) =>
  asked(path, { method: "POST", body: JSON.stringify(value), headers: { "Content-Type": "application/json" } });

/** A picture from the server, decoded, for a canvas. */
export async function picture(path, query) {
  const image = new Image();
  image.src = address(path, query);
  try {
    await image.decode();
  } catch {
    await get(path, query).catch((error) => {
      if (error instanceof Refused || error instanceof Silent) throw error; // the server's own reason
    });
    throw new Refused(404, "The picture is no longer on the server.");
  }
  return image;
}

/** A photo, row, series or text that the server knows by its id, with its source: what is needed to send it again. */
export class Subject {
  constructor(id, source) {
    Object.assign(this, { id, source });
  }

  /** Do something with it; it is sent again if the server was restarted. */
  async kept(work) {
    try {
      return await work();
    } catch (refusal) {
      if (!(refusal instanceof Refused) || refusal.status !== 404 || !this.source) throw refusal;
      this.id = (await this.constructor.sent(this.source)).id;
      return work();
    }
  }

  beliefs(net, labels = []) {
    return this.kept(() => get(`api/photos/${this.id}/beliefs`, { net, number: 6, labels }));
  }
}
