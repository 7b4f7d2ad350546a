// Shared by all scripts of the report: the record, the marks of methods, and work before printing.

const record = JSON.parse(document.getElementById("record").textContent);

/** Register work to do before the page is printed. */
const beforePrint = (work) => addEventListener("beforeprint", work);

/** The mark of a method, copied from the table of scores. */
const methodMark = (method) =>
  document.querySelectorAll(".scores tbody .key")[record.methods.length ? method : 0].cloneNode(true);

beforePrint(() => document.querySelectorAll("#made details, .failures").forEach((d) => { d.open = true; }));
setUpCopy();
