// What all scripts of the report share: the record, the marks of methods, what happens before printing.

const record = JSON.parse(document.getElementById("record").textContent);

/** Work to do before the page goes on paper. */
const beforePrint = (work) => addEventListener("beforeprint", work);

/** The picture that marks a method everywhere: taken from the table of scores. */
const methodMark = (method) =>
  document.querySelectorAll(".scores tbody .key")[record.methods.length ? method : 0].cloneNode(true);

beforePrint(() => document.querySelectorAll("#made details, .failures").forEach((d) => { d.open = true; }));
setUpTheme();
setUpCopy();
