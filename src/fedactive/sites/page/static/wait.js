// Nothing to label: ask every few seconds whether that changed, and then reload the page.

import {Outbox} from "./outbox.js";

const wait = document.getElementById("wait");
const shown = JSON.parse(wait.dataset.work);
const status = document.getElementById("status");
const say = message => { status.textContent = message; };

const outbox = new Outbox(wait.dataset.csrf, `outbox ${wait.dataset.annotator}`, {
  onConfirmed: confirmed, onRefused: (change, message) => say(`Not saved: ${message}`), onTrouble: say,
});

const pages = {round: "/", late: "/late", disputed: "/disagreements"};  // by queue

function confirmed(change, {undone}) {
  if (!outbox.empty) return;
  if (change.path !== "/api/undo") location.reload();  // an earlier answer, sent only now
  else if (!undone) say("There is nothing to undo.");
  else location.assign(pages[undone.queue]);
}

const undo = () => outbox.put("/api/undo", {queue: shown.queue});
document.getElementById("undo").addEventListener("click", undo);
addEventListener("keydown", event => {
  if (event.key === "Backspace" && !event.repeat && !event.ctrlKey && !event.metaKey && !event.altKey) undo();
});

const facts = work => JSON.stringify([work.state, work.counts, work.round, work.disputed, work.to_decide, work.late]);

let away = false;

async function look() {
  try {
    const answer = await fetch(`/api/next?queue=${shown.queue}&count=1`);
    if (answer.status === 401) return location.assign("/sign-in");
    if (answer.ok && facts(await answer.json()) !== facts(shown)) return location.reload();
    if (away) say("");
    away = false;
  } catch {
    away = true;
    say("The site does not answer. Trying again.");
  }
  setTimeout(look, 3000);
}

setTimeout(look, 3000);
outbox.send();
