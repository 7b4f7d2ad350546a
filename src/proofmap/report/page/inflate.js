// Inflate (RFC 1951) in one call. The browser's own DecompressionStream answers later, which is too late for a page
// that is printed as soon as it is opened.

const LENGTHS = { base: [3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 17, 19, 23, 27, 31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258],
  extra: [0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0] };
const DISTANCES = { base: [1, 2, 3, 4, 5, 7, 9, 13, 17, 25, 33, 49, 65, 97, 129, 193, 257, 385, 513, 769, 1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577],
  extra: [0, 0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13] };
const ORDER = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];

/** A canonical Huffman code: how many codes of each length there are, and the symbols in the order of their codes. */
function huffman(lengths) {
  const counts = new Uint16Array(16);
  for (const length of lengths) counts[length]++;
  counts[0] = 0;
  const next = new Uint16Array(16);
  for (let length = 1; length < 15; length++) next[length + 1] = next[length] + counts[length];
  const symbols = new Uint16Array(lengths.length);
  lengths.forEach((length, symbol) => { if (length) symbols[next[length]++] = symbol; });
  return { counts, symbols };
}

/** The ``size`` bytes behind deflated ``data`` in zlib's wrapping, whose first two bytes are a header. */
function inflated(data, size) {
  const out = new Uint8Array(size);
  let [place, held, left, written] = [2, 0, 0, 0];

  const bit = () => {
    if (!left) { held = data[place++]; left = 8; }
    left--;
    const found = held & 1;
    held >>= 1;
    return found;
  };
  const bits = (n) => {
    let found = 0;
    for (let k = 0; k < n; k++) found |= bit() << k;
    return found;
  };
  const symbol = ({ counts, symbols }) => {
    let [code, first, index] = [0, 0, 0];
    for (let length = 1; ; length++) {
      code |= bit();
      const count = counts[length];
      if (code - first < count) return symbols[index + code - first];
      index += count;
      first = (first + count) << 1;
      code <<= 1;
    }
  };
  const stored = () => {
    left = 0;
    const length = data[place] | (data[place + 1] << 8);
    out.set(data.subarray(place + 4, place + 4 + length), written);
    place += 4 + length;
    written += length;
  };
  const coded = (literals, distances) => {
    for (let found = symbol(literals); found !== 256; found = symbol(literals)) {
      if (found < 256) { out[written++] = found; continue; }
      const length = LENGTHS.base[found - 257] + bits(LENGTHS.extra[found - 257]);
      const far = symbol(distances);
      const distance = DISTANCES.base[far] + bits(DISTANCES.extra[far]);
      for (const end = written + length; written < end; written++) out[written] = out[written - distance];
    }
  };
  const fixed = () => {
    const lengths = Array.from({ length: 288 }, (_, k) => (k < 144 ? 8 : k < 256 ? 9 : k < 280 ? 7 : 8));
    coded(huffman(lengths), huffman(Array(30).fill(5)));
  };
  const dynamic = () => {
    const [literals, distances, codes] = [bits(5) + 257, bits(5) + 1, bits(4) + 4];
    const own = Array(19).fill(0);
    for (let k = 0; k < codes; k++) own[ORDER[k]] = bits(3);
    const code = huffman(own);
    const lengths = [];
    while (lengths.length < literals + distances) {
      const found = symbol(code);
      const [value, times] = found < 16 ? [found, 1]
        : found === 16 ? [lengths[lengths.length - 1], 3 + bits(2)]
        : [0, found === 17 ? 3 + bits(3) : 11 + bits(7)];
      for (let k = 0; k < times; k++) lengths.push(value);
    }
    coded(huffman(lengths.slice(0, literals)), huffman(lengths.slice(literals)));
  };

  for (let last = false; !last;) {
    last = bit() === 1;
    [stored, fixed, dynamic][bits(2)]();
  }
  return out;
}
