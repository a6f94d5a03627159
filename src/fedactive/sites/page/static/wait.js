// Nothing to label: look every few seconds whether there is, and load the page anew when something changed.
"use strict";

const wait = document.getElementById("wait");
const shown = JSON.parse(wait.dataset.work);
const status = document.getElementById("status");

const facts = work => JSON.stringify([work.state, work.counts, work.round]);

async function look() {
  try {
    const answer = await fetch(`/api/next?queue=${shown.queue}&count=1`);
    if (answer.status === 401) return location.assign("/sign-in");
    if (answer.ok) {
      status.textContent = "";
      if (facts(await answer.json()) !== facts(shown)) return location.reload();
    }
  } catch {
    status.textContent = "The site does not answer. Trying again.";
  }
  setTimeout(look, 3000);
}
setTimeout(look, 3000);

async function undo() {
  const answer = await fetch("/api/undo", {
    method: "POST",
    headers: {"Content-Type": "application/json", "X-CSRF-Token": status.dataset.csrf},
    body: JSON.stringify({queue: shown.queue, key: crypto.randomUUID()}),
  });
  const result = await answer.json();
  if (!answer.ok) status.textContent = result.error;
  else if (!result.undone) status.textContent = "There is nothing to undo.";
  else location.assign(result.undone.final ? "/disagreements" : result.state === "label" ? "/" : "/late");
}
document.getElementById("undo").addEventListener("click", undo);
addEventListener("keydown", event => {
  if (event.key === "Backspace" && !event.repeat && !event.ctrlKey && !event.metaKey && !event.altKey) undo();
});
