"use strict";
// Every table can be saved as CSV and LaTeX, every picture as SVG: as they are on the page, in light colours.
function save(name, kind, content) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([content], {type: kind}));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
function texts(table) {
  const clean = cell => cell.textContent.replace(/\s+/g, " ").trim();
  return [...table.rows].filter(row => !row.hidden).map(row => [...row.cells].map(cell => [clean(cell), cell]));
}
// A mean and its deviation are two columns.
function csv(table) {
  const rows = texts(table).map(row => row.map(([text]) => text));
  const split = rows[0].map((_, i) => rows.slice(1).some(row => (row[i] || "").includes(" ± ")));
  const quoted = text => /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  const parts = (text, i, head) => !split[i] ? [text] : head ? [text, `${text} ±`] : [...text.split(" ± "), ""].slice(0, 2);
  return rows.map((row, r) => row.flatMap((text, i) => parts(text, i, r === 0)).map(quoted).join(",") + "\n").join("");
}
const SPECIAL = {"\\": "\\textbackslash{}", "±": "$\\pm$", "×": "$\\times$", "≤": "$\\leq$", "<": "$<$", ">": "$>$", "~": "\\textasciitilde{}", "^": "\\textasciicircum{}", "–": "--"};
function latex(table, caption) {
  const escape = text => text.replace(/[\\±×≤<>~^–%_&$#{}]/g, letter => SPECIAL[letter] || "\\" + letter);
  const mark = ([text, cell]) => {
    const written = escape(text);
    return cell.matches("td.best") ? `\\textbf{${written}}` : cell.matches("td.second") ? `\\underline{${written}}` : written;
  };
  const [head, ...rows] = texts(table).map(row => row.map(mark).join(" & ") + " \\\\");
  const columns = "l" + "r".repeat(table.rows[0].cells.length - 1);
  return ["% needs \\usepackage{booktabs}", "\\begin{table}", "\\centering", `\\caption{${escape(caption)}}`,
    `\\begin{tabular}{${columns}}`, "\\toprule", head, "\\midrule", ...rows, "\\bottomrule", "\\end{tabular}", "\\end{table}", ""].join("\n");
}
// Colours come from the page's style: the copy has them in its own elements.
const LOOKS = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "stroke-linejoin", "opacity", "font-family", "font-size", "font-weight"];
function picture(svg) {
  const copy = svg.cloneNode(true), root = document.documentElement;
  root.classList.add("light");
  const from = [svg, ...svg.querySelectorAll("*")], to = [copy, ...copy.querySelectorAll("*")];
  from.forEach((element, i) => {
    const look = getComputedStyle(element);
    for (const name of LOOKS) to[i].setAttribute(name, look.getPropertyValue(name));
  });
  root.classList.remove("light");
  copy.setAttribute("height", copy.viewBox.baseVal.height);
  return new XMLSerializer().serializeToString(copy);
}
function offer(place, label, kinds) {
  const bar = document.createElement("div");
  bar.className = "save";
  const where = place.closest("[data-setting]"), number = where ? `setting-${where.dataset.setting}-` : "";
  const name = (number + label).replace(/[^\w-]+/g, "-").toLowerCase();
  for (const [ending, kind, content] of kinds) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = ending.toUpperCase().replace("TEX", "LaTeX");
    button.setAttribute("aria-label", `Save ${label} as ${button.textContent}`);
    button.addEventListener("click", () => save(`${name}.${ending}`, kind, content()));
    bar.append(button);
  }
  place.before(bar);
}
for (const place of document.querySelectorAll(".scroll")) {
  const label = place.getAttribute("aria-label"), table = place.querySelector("table:not(.images)");
  const svg = place.querySelector(".wide svg") || place.querySelector("svg");
  const caption = () => [place.closest("[data-setting]")?.querySelector("h2").textContent, label].filter(Boolean).join(": ");
  if (table) offer(place, label, [["csv", "text/csv", () => csv(table)], ["tex", "text/x-tex", () => latex(table, caption())]]);
  else if (svg) offer(place, svg.querySelector("title").textContent, [["svg", "image/svg+xml", () => picture(svg)]]);
}
