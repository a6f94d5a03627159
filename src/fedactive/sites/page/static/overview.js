// Import answers from Label Studio: the file goes to the site as it is, and the site replies with the result.
// Undo an import.
"use strict";

const csrf = document.getElementById("overview").dataset.csrf;
const imported = document.getElementById("imported");
const leftOut = document.getElementById("left-out");
const input = document.getElementById("import");

async function post(path, body) {
  const answer = await fetch(path, {
    method: "POST",
    headers: {"Content-Type": "application/json", "X-CSRF-Token": csrf},
    body,
  });
  const result = await answer.json();
  if (!answer.ok) imported.textContent = result.error;
  return answer.ok ? result : null;
}

input?.addEventListener("change", async () => {
  const [file] = input.files;
  input.value = "";
  if (!file) return;
  leftOut.replaceChildren();
  imported.textContent = "Importing…";
  try {
    const result = await post("/api/label-studio", file);
    if (!result) return;
    imported.textContent = `${result.recorded} answers recorded, ${result.known_before} were known before, ` +
      `${result.left_out.length} left out.`;
    for (const line of result.left_out.slice(0, 50)) {
      leftOut.append(Object.assign(document.createElement("li"), {textContent: line}));
    }
  } catch {
    imported.textContent = "The site does not answer. Import the same file again: nothing is recorded twice.";
  }
});

for (const button of document.querySelectorAll("[data-undo]")) {
  button.addEventListener("click", async () => {
    if (!confirm("Take back all answers of this import?")) return;
    imported.textContent = "Undoing…";
    try {
      const result = await post("/api/label-studio/undo", JSON.stringify({number: +button.dataset.undo}));
      if (!result) return;
      button.replaceWith("undone");
      imported.textContent = `${result.undone} answers taken back.`;
    } catch {
      imported.textContent = "The site does not answer. Reload the page to see what was undone.";
    }
  });
}

for (const time of document.querySelectorAll("time")) {
  time.textContent = new Date(time.dateTime).toLocaleString([], {dateStyle: "medium", timeStyle: "short"});
}
