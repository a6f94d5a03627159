// Labelling: keys and buttons, one image after the other. After an answer the next image shows at once; the answer
// is sent in the background.

import {Outbox} from "./outbox.js";
import {Stage} from "./stage.js";

const byId = id => document.getElementById(id);
const main = byId("work");
const classes = JSON.parse(main.dataset.classes);  // [key, name]
const labels = new Map(classes.map(([key], label) => [key, label]).filter(([key]) => key));
const stage = new Stage(byId("stage"));
const outbox = new Outbox(main.dataset.csrf, `outbox ${main.dataset.annotator}`, {
  onConfirmed: confirmed, onRefused: refused, onTrouble: banner,
});

let work = JSON.parse(main.dataset.work);
let ahead = work.images.filter(item => !outbox.has(item.sample));  // to be answered, the first is next
let past = [];         // answered, oldest first
let browsing = null;   // position in `past` of the earlier image on the screen
let shown = null, shownAt = 0;

// --- showing

const nameOf = answer => answer.action === "label" ? classes[answer.label][1]
  : answer.action === "skip" ? "cannot tell" : "flagged";

// A name that is written from right to left must not change the order of the words beside it.
const isolated = name => Object.assign(document.createElement("bdi"), {textContent: name});

function show() {
  const item = browsing === null ? ahead[0] : past[browsing];
  if (!item) {  // the server says on its page why there is nothing left
    if (outbox.empty) location.reload();
    return;
  }
  stage.prefetch([...ahead.slice(0, 8), ...(browsing === null ? past.slice(-1) : past.slice(Math.max(0, browsing - 2), browsing))]);
  if (item !== shown) {
    shown = item;
    shownAt = performance.now();
    if (byId("guess")) byId("guess").textContent = "Show guess";
  }
  const earlier = browsing !== null;
  const alt = earlier ? `Earlier image, your answer: ${nameOf(item)}` : "Image to label";
  note(earlier ? `Earlier image · you said: ${nameOf(item)}` : "");
  stage.show(item, alt, () => note("This image cannot be shown. Flag it (F) to go on."));
  for (const button of main.querySelectorAll("[data-label], [data-action]")) {
    const chosen = earlier && (button.dataset.action === item.action || +button.dataset.label === item.label);
    button.setAttribute("aria-pressed", chosen);
  }
  const opinions = item.opinions || [];
  byId("opinions").hidden = !opinions.length;
  const said = opinions.flatMap(one => [", ", isolated(nameOf(one)), ` (${one.people})`]).slice(1);
  byId("opinions").replaceChildren("People disagree: ", ...said, ". Your answer decides.");
  progress();
}

function progress() {
  const {counts, round, pace} = work;
  if (work.queue === "round") {  // the next image may belong to another round
    for (const heading of document.querySelectorAll("title, h1, #heading")) {
      heading.textContent = heading.textContent.replace(/^Round \d+( of \d+)?/, round.title);
    }
  }
  const decided = counts.requested - counts.pending;
  const {mine, to_decide} = work;  // mine: where several people answer about each image
  const deciding = work.queue === "disputed";
  const done = mine ? mine.answered : decided, left = deciding ? to_decide : mine ? mine.left : counts.pending;
  byId("bar").hidden = deciding;  // how many there will be is unknown
  byId("bar").value = done + left ? done / (done + left) : 0;
  byId("done").textContent = deciding ? `${to_decide} to decide`
    : mine ? `you answered ${done}, ${left} left; ${decided} of ${counts.requested} done in all`
    : `${decided} of ${counts.requested} done, ${left} left`;
  byId("skipped").textContent = [counts.skipped && `${counts.skipped} skipped`, counts.flagged && `${counts.flagged} flagged`]
    .filter(Boolean).join(", ");
  byId("pace").textContent = pace
    ? `${pace.toFixed(1)} s per image, ${duration(pace * left)} to go` : "";
  byId("deadline").textContent = round.deadline && !round.closed ? deadline(new Date(round.deadline)) : "";
}

function duration(seconds) {
  if (seconds < 60) return "under 1 min";
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  return seconds < 172800 ? `${Math.round(seconds / 3600)} h` : `${Math.round(seconds / 86400)} days`;
}

function deadline(end) {
  const left = (end - Date.now()) / 1000;
  if (left <= 0) return "deadline passed, still open";
  const time = end.toLocaleString([], left < 86400 ? {timeStyle: "short"} : {dateStyle: "medium", timeStyle: "short"});
  return `until ${time} (${duration(left)})`;
}

function put(id, message) {
  byId(id).hidden = !message;
  byId(id).textContent = message;
}

function note(message) { put("which", message); }      // about the image on the screen
function banner(message) { put("banner", message); }   // about answers on their way

const say = message => { byId("status").textContent = message; };

// --- answering

function answer(action, label = null) {
  const item = shown;
  if (!item) return;
  const seconds = Math.min((performance.now() - shownAt) / 1000, 86400);
  const given = {...item, action, label};
  if (browsing === null) {
    ahead = ahead.filter(other => other.sample !== item.sample);
    past.push(given);
  } else {
    past[browsing] = given;
    browsing = browsing + 1 < past.length ? browsing + 1 : null;
  }
  shown = null;
  say(`${nameOf(given)}.`);
  outbox.put("/api/answer", {
    sample: item.sample, action, label, seconds: +seconds.toFixed(2), queue: work.queue,
  });
  if (ahead.length || browsing !== null) show();
  else stage.clear();  // what comes next arrives with the confirmation
}

function undo() {
  say("Undoing…");
  outbox.put("/api/undo", {queue: work.queue});
}

function confirmed(change, result) {
  work = result;
  if (change.path === "/api/undo") {
    const {undone} = result;
    if (!undone) {
      say("There is nothing to undo.");
    } else if (undone.final !== (work.queue === "disputed")) {
      location.assign(undone.final ? "/disagreements" : "/");
      return;
    } else {
      say(`Undone: ${nameOf(undone)}.`);
      const last = past.findLastIndex(item => item.sample === undone.sample);
      if (last >= 0) past.splice(last, 1);
      browsing = null;
      ahead = [undone, ...ahead.filter(item => item.sample !== undone.sample)];
    }
  }
  merge(result.images);
  show();
}

// The site says what is next. The image on the screen stays as long as the site still asks for it.
function merge(images) {
  const wanted = images.filter(item => !outbox.has(item.sample));
  const first = ahead[0];
  const keep = first && (!outbox.empty || first.action || wanted.some(item => item.sample === first.sample));
  const rest = wanted.filter(item => !keep || item.sample !== first.sample);
  ahead = keep ? [first, ...rest] : rest;
}

function refused(change, message) {
  past = past.filter(item => item.sample !== change.body.sample);
  browsing = null;
  banner(`Not saved: ${message}`);
  if (ahead.length) show();
  setTimeout(() => {  // so that people can read it, also before another page replaces this one
    banner("");
    if (!shown) show();
  }, 8000);
}

async function guess() {
  const item = shown;
  if (!item) return;
  const answer = await fetch(`/api/guess/${item.sample}`).catch(() => null);
  if (answer?.status === 401) return location.assign("/sign-in");
  const result = await answer?.json().catch(() => null);
  if (item !== shown) return;
  if (!answer?.ok || !result) return say(`No guess: ${result?.error || "the site does not answer."}`);
  byId("guess").textContent = result.label === null ? "No guess yet"
    : `${classes[result.label][1]} (${Math.round(100 * result.probability)}%)`;
}

// --- keys and buttons

const doing = {
  undo,
  guess: () => main.dataset.guess && guess(),
  help: () => byId("help").showModal(),
  back() {
    const before = (browsing ?? past.length) - 1;
    if (before < 0) return say("There is nothing earlier.");
    browsing = before;
    show();
  },
  forward() {
    if (browsing === null) return;
    browsing = browsing + 1 < past.length ? browsing + 1 : null;
    show();
  },
};
const viewing = {
  "zoom-in": () => stage.zoomBy(1.5), "zoom-out": () => stage.zoomBy(1 / 1.5),
  "contrast-up": () => stage.contrastBy(1.25), "contrast-down": () => stage.contrastBy(0.8),
  reset: () => stage.reset(),
};
const keys = {
  " ": () => answer("skip"), f: () => answer("flag"), backspace: doing.undo, g: doing.guess, "?": doing.help,
  arrowleft: doing.back, arrowright: doing.forward, "+": viewing["zoom-in"], "=": viewing["zoom-in"],
  "-": viewing["zoom-out"], ".": viewing["contrast-up"], ",": viewing["contrast-down"], escape: viewing.reset,
};

addEventListener("keydown", event => {
  if (event.ctrlKey || event.metaKey || event.altKey || byId("help").open) return;
  const key = event.key.toLowerCase();
  if (key === " " && event.target.closest("button, a, input")) return;  // Space presses what has the focus
  if (event.target.closest("input")) return;
  const action = labels.has(key) ? () => answer("label", labels.get(key)) : keys[key];
  if (!action) return;
  event.preventDefault();
  // A key that is held down answers once, not about every image that follows.
  if (!event.repeat || "+-=,.".includes(key)) action();
});

document.addEventListener("click", event => {
  const button = event.target.closest("button");
  if (!button) return;
  const {label, action, view} = button.dataset;
  if (label !== undefined) answer("label", +label);
  else if (action) answer(action);
  else if (button.dataset.do) doing[button.dataset.do]();
  else if (view) viewing[view]();
  if (event.detail) button.blur();  // after a click with the mouse, Space skips again
});

setInterval(progress, 20000);  // the deadline comes nearer
show();
outbox.send();
fetch("/api/history?count=200").then(answer => answer.json()).then(answers => {
  const seen = new Set(past.map(item => item.sample));
  const before = [];
  for (const one of answers) {
    if (seen.has(one.sample) || one.final !== (work.queue === "disputed")) continue;
    seen.add(one.sample);
    before.unshift(one);
  }
  past = [...before.filter(one => one.sample !== ahead[0]?.sample), ...past];
  if (browsing !== null) browsing += before.length;
});
