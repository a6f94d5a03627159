// Show what is new every few seconds, without moving what is being read.
"use strict";
const SECONDS = 10;
setInterval(async () => {
  const main = document.getElementById("fresh");
  if (!main || document.hidden || String(getSelection())) return;
  const answer = await fetch(location.pathname).catch(() => null);
  if (!answer || !answer.ok) return;
  if (answer.redirected) { location.reload(); return; }
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const fresh = page.getElementById("fresh");
  if (fresh) main.replaceChildren(...fresh.childNodes);
}, SECONDS * 1000);
