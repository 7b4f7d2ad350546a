// What a tab keeps across a reload, and across a restart of the server: the job's request and the photo.

import { bitsOf, lettersOf } from "./pixels.js";
import { bytesOf } from "./shared.js";

const KEY = "proofmap";

/** Keep the request and the photo; a photo that is too large for the tab's storage is left out. */
export async function remember(job, request, photo) {
  const kept = { job, request, name: photo.name, ...(await portable(photo.source)) };
  try {
    sessionStorage.setItem(KEY, JSON.stringify(kept));
  } catch {
    sessionStorage.setItem(KEY, JSON.stringify({ job, request, name: photo.name }));
  }
}

/** What was kept: request, name and, if available, the source of the photo; null for another job. */
export function recall(job) {
  const kept = JSON.parse(sessionStorage.getItem(KEY) ?? "null");
  if (kept?.job !== job) return null;
  return { request: kept.request, name: kept.name, source: sourceOf(kept) };
}

function sourceOf({ sample, text, index, type, data, name }) {
  if (sample) return { sample };
  if (text !== undefined) return { text };
  if (index !== undefined) return { index };
  return data ? { blob: new File([bytesOf(data)], name, { type }) } : null;
}

async function portable(source) {
  if (!source?.blob) return source ?? {};
  const text = await new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result);
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(source.blob);
  });
  return { type: source.blob.type, data: text.slice(text.indexOf(",") + 1) };
}

/** What the address names: a job and, if a painted proof was shared, its label and mask. */
export function inAddress() {
  const given = new URLSearchParams(location.hash.slice(1));
  return { job: given.get("job"), label: given.get("label"), mask: given.get("mask") };
}

/** Put the job in the address, so that a reload returns to it. */
export const putInAddress = (job) => history.replaceState(null, "", job ? `#job=${job}` : location.pathname + location.search);

/** A link to a job with a painted proof of a label. */
export async function linkTo(job, label, mask) {
  const packed = await new Response(new Blob([bitsOf(mask)]).stream().pipeThrough(new CompressionStream("deflate-raw"))).arrayBuffer();
  const text = lettersOf(new Uint8Array(packed)).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
  return `${location.origin}${location.pathname}#${new URLSearchParams({ job, label, mask: text })}`;
}

/** The mask of `n` pixels in a link; null if the text is no such mask. It reads no more bytes than that. */
export async function maskFrom(text, n) {
  const bytes = new Uint8Array(Math.ceil(n / 8));
  let filled = 0;
  try {
    const packed = bytesOf(text.replaceAll("-", "+").replaceAll("_", "/"));
    const reader = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate-raw")).getReader();
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      if (filled + part.value.length > bytes.length) {
        await reader.cancel();
        return null;
      }
      bytes.set(part.value, filled);
      filled += part.value.length;
    }
  } catch {
    return null;
  }
  return filled === bytes.length ? Uint8Array.from({ length: n }, (_, i) => (bytes[i >> 3] >> (7 - (i & 7))) & 1) : null;
}
