// Import answers from Label Studio: the file goes to the site as it is, and the site replies with the result.
"use strict";

const csrf = document.getElementById("overview").dataset.csrf;
const imported = document.getElementById("imported");
const leftOut = document.getElementById("left-out");
const input = document.getElementById("import");

input?.addEventListener("change", async () => {
  const [file] = input.files;
  input.value = "";
  if (!file) return;
  leftOut.replaceChildren();
  imported.textContent = "Importing…";
  try {
    const answer = await fetch("/api/label-studio", {
      method: "POST",
      headers: {"Content-Type": "application/json", "X-CSRF-Token": csrf},
      body: file,
    });
    const result = await answer.json();
    if (!answer.ok) {
      imported.textContent = result.error;
      return;
    }
    imported.textContent = `${result.recorded} answers recorded, ${result.known_before} were known before, ` +
      `${result.left_out.length} left out.`;
    for (const line of result.left_out.slice(0, 50)) {
      leftOut.append(Object.assign(document.createElement("li"), {textContent: line}));
    }
  } catch {
    imported.textContent = "The site does not answer; nothing was imported.";
  }
});

for (const time of document.querySelectorAll("time")) {
  time.textContent = new Date(time.dateTime).toLocaleString([], {dateStyle: "medium", timeStyle: "short"});
}
