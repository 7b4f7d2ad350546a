// Pixels as numbers: the photo, the fill, and the composite of both.

import { bytesOf, scratch } from "./shared.js";

/** The pixels of a picture at this size, one number each. */
export function pixelsOf(image, size) {
  const { context, canvas } = scratch(size, "read");
  context.clearRect(0, 0, canvas.width, canvas.height);
  context.drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Uint32Array(context.getImageData(0, 0, canvas.width, canvas.height).data.buffer);
}

/** Draw the photo where `shown(i)` is true and the fill elsewhere: the paper's modified input. */
export function composite(canvas, photo, shown) {
  const { data, pixels } = scratch(canvas, "composite");
  for (let i = 0; i < pixels.length; i++) pixels[i] = shown(i) ? photo.view[i] : photo.fill[i];
  canvas.getContext("2d").putImageData(data, 0, 0);
}

/** The rank of each pixel, 0 is the most important, from base64 of numbers of two or four bytes, lowest byte first. */
export function ranksOf(text, n) {
  const bytes = bytesOf(text);
  const wide = bytes.length / n;
  const view = new DataView(bytes.buffer);
  return Uint32Array.from({ length: n }, (_, i) => (wide === 2 ? view.getUint16(2 * i, true) : view.getUint32(4 * i, true)));
}

/** The rank of each pixel of a map of bytes: greater values first, equal values in their order. */
export function ranked(map) {
  const starts = new Uint32Array(257);
  for (const value of map) starts[255 - value + 1]++;
  for (let v = 1; v < 257; v++) starts[v] += starts[v - 1];
  return Uint32Array.from(map, (value) => starts[255 - value]++);
}

/** A map of bytes at another size, by bilinear interpolation. */
export function resized(map, from, to) {
  if (from.width === to.width && from.height === to.height) return map;
  const place = (i, few, many) => Math.min(Math.max(((i + 0.5) * few) / many - 0.5, 0), few - 1);
  const out = new Uint8Array(to.width * to.height);
  for (let y = 0; y < to.height; y++) {
    const v = place(y, from.height, to.height);
    const top = Math.floor(v) * from.width;
    const bottom = Math.ceil(v) * from.width;
    for (let x = 0; x < to.width; x++) {
      const u = place(x, from.width, to.width);
      const [left, right] = [Math.floor(u), Math.ceil(u)];
      const above = map[top + left] + (map[top + right] - map[top + left]) * (u - left);
      const below = map[bottom + left] + (map[bottom + right] - map[bottom + left]) * (u - left);
      out[y * to.width + x] = Math.round(above + (below - above) * (v - Math.floor(v)));
    }
  }
  return out;
}

/** Marks (0 or 1) as packed bits, the first pixel in the highest bit. */
export function bitsOf(marks) {
  const bytes = new Uint8Array(Math.ceil(marks.length / 8));
  for (let i = 0; i < marks.length; i++) if (marks[i]) bytes[i >> 3] |= 128 >> (i & 7);
  return bytes;
}

/** Bytes in base64. */
export function lettersOf(bytes) {
  let letters = "";
  for (const byte of bytes) letters += String.fromCharCode(byte);
  return btoa(letters);
}
