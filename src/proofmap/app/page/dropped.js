// Files that were dropped on the page, also those in folders.

/** All files in what was dropped, also in folders. */
export async function filesIn(transfer) {
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
  const files = [...transfer.files];
  return entries.some(({ isDirectory }) => isDirectory) ? (await Promise.all(entries.map(below))).flat() : files;
}

async function below(entry) {
  if (entry.isFile) return [await new Promise((resolve, reject) => { entry.file(resolve, reject); })];
  const reader = entry.createReader();
  const inside = [];
  for (;;) {
    const some = await new Promise((resolve, reject) => { reader.readEntries(resolve, reject); });
    if (!some.length) break;
    inside.push(...some);
  }
  return (await Promise.all(inside.filter(({ name }) => !name.startsWith(".")).map(below))).flat();
}
