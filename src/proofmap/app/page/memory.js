// What a tab keeps across a reload, and across a restart of the server: the job's request and the photo.

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

function sourceOf({ sample, type, data, name }) {
  if (sample) return { sample };
  return data ? { blob: new File([bytesOf(data)], name, { type }) } : null;
}

async function portable(source) {
  if (!source || source.sample) return source ?? {};
  const text = await new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result);
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(source.blob);
  });
  return { type: source.blob.type, data: text.slice(text.indexOf(",") + 1) };
}

/** The job in the address, or null. */
export const jobInAddress = () => new URLSearchParams(location.hash.slice(1)).get("job");

/** Put the job in the address, so that a reload returns to it. */
export const putInAddress = (job) => history.replaceState(null, "", job ? `#job=${job}` : location.pathname + location.search);
