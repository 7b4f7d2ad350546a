// Questions to the server. Every answer is JSON; what it refuses comes as an error whose message says what to do.

/** The server's refusal: its status and words. */
export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** There is no answer at all. */
export class Silent extends Error {
  constructor() {
    super("The server does not answer. Is proofmap serve still running?");
  }
}

/** The address of a route with its query; undefined values are left out, a list is named again for each of its values. */
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
  const told = await response.json().catch(() => ({}));
  throw new Refused(response.status, told.error ?? `The server answered ${response.status}.`);
}

export const get = (path, query) => asked(address(path, query));
export const remove = (path) => asked(path, { method: "DELETE" });
export const send = (path, blob) =>
  asked(address(path, { name: blob.name }), { method: "POST", body: blob, headers: { "Content-Type": blob.type || "image/unknown" } });
export const post = (path, value) =>
  asked(path, { method: "POST", body: JSON.stringify(value), headers: { "Content-Type": "application/json" } });

/** A picture of the server, decoded: something that a canvas can draw. */
export async function picture(path, query) {
  const image = new Image();
  image.src = address(path, query);
  try {
    await image.decode();
  } catch {
    await get("api/about"); // a server that is silent says so here
    throw new Refused(404, "The picture is no longer on the server.");
  }
  return image;
}
