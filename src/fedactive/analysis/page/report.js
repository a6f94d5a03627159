"use strict";
// Numbers sort the largest first, names alphabetically; a second click turns the order round.
for (const button of document.querySelectorAll("th[aria-sort] button")) {
  button.addEventListener("click", () => {
    const header = button.parentElement, row = header.parentElement, body = row.closest("table").tBodies[0];
    const column = [...row.children].indexOf(header), text = column === 0;
    const start = text ? "ascending" : "descending", other = text ? "descending" : "ascending";
    const order = header.getAttribute("aria-sort") === start ? other : start;
    for (const cell of row.children) cell.setAttribute("aria-sort", "none");
    header.setAttribute("aria-sort", order);
    const key = tr => text ? tr.children[0].textContent : tr.children[column].dataset.value;
    const sign = order === "ascending" ? 1 : -1;
    const compare = (a, b) => {
      let x = key(a), y = key(b);
      if (text || Number.isNaN(Number(x)) && Number.isNaN(Number(y)) && x !== "nan")
        return sign * x.localeCompare(y, undefined, {numeric: true});
      x = parseFloat(x), y = parseFloat(y);
      return Number.isNaN(x) - Number.isNaN(y) || sign * (x - y) || 0;  // what is missing stays at the end
    };
    body.append(...[...body.rows].sort(compare));
  });
}
addEventListener("beforeprint", () => { for (const d of document.querySelectorAll("details.print")) d.open = true; });

// A link into a setting opens it.
function reveal() {
  const target = location.hash && document.getElementById(location.hash.slice(1));
  const details = target && target.closest("details");
  if (details) { details.open = true; target.scrollIntoView(); }
}
addEventListener("hashchange", reveal);
reveal();

// Only what has all words of the filter stays: rows of the table of settings, settings, configurations.
const filter = document.getElementById("filter");
if (filter) {
  const places = [...document.querySelectorAll("[data-words]")].map(e => [e, e.dataset.words.toLowerCase()]);
  const settings = new Map(places.filter(([e]) => e.dataset.setting).map(([e, words]) => [e.dataset.setting, words]));
  const rows = [...document.querySelectorAll("#settings-table tbody tr")];
  const shown = words => filter.value.toLowerCase().split(/[\s,]+/).every(word => words.includes(word));
  const update = () => {
    for (const [e, words] of places) e.hidden = !shown(words);
    let count = 0;
    for (const row of rows) {
      row.hidden = !shown(settings.get(row.cells[0].textContent.trim()));
      count += !row.hidden;
    }
    document.getElementById("shown").textContent = `${count} of ${rows.length} settings`;
  };
  filter.addEventListener("input", update);
  update();
}
