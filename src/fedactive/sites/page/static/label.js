// Labelling: keys and buttons, one image after the other. After an answer the next image shows at once; the answer
// is sent in the background.

import {listenToComments} from "./comment.js";
import {listenToKeys} from "./keys.js";
import {Last} from "./last.js";
import {Outbox} from "./outbox.js";
import {stayPresent} from "./presence.js";
import {showProgress} from "./progress.js";
import {Search} from "./search.js";
import {Stage} from "./stage.js";

const LAST = 9, AHEAD = 8;

const byId = id => document.getElementById(id);
const main = byId("work");
const classes = JSON.parse(main.dataset.classes);  // [key, name]
const stage = new Stage(byId("stage"), {
  onReady: ready, onLoaded: () => last.show(past, browsing), onBroken: broken, onTone: tone,
});
const outbox = new Outbox(main.dataset.csrf, `outbox ${main.dataset.annotator}`, {
  onConfirmed: confirmed, onRefused: refused, onTrouble: banner,
});
const last = new Last(byId("last"), stage, nameOf, LAST);
const search = byId("search") && new Search(byId("search"), byId("classes"), label => answer("label", label));

let work = JSON.parse(main.dataset.work);
let ahead = work.images.filter(item => !outbox.has(item.sample));  // to be answered, the first is next
let past = [];         // answered, oldest first
let browsing = null;   // position in `past` of the earlier image on the screen
let shown = null, shownAt = 0;

// --- showing

function nameOf(answer) {
  return answer.action === "label" ? classes[answer.label][1] : answer.action === "skip" ? "cannot tell" : "flagged";
}

// A name that is written from right to left must not change the order of the words beside it.
const isolated = name => Object.assign(document.createElement("bdi"), {textContent: name});

function show() {
  const item = browsing === null ? ahead[0] : past[browsing];
  if (!item) {  // the server says on its page why there is nothing left
    if (outbox.empty) location.reload();
    return;
  }
  if (item !== shown) {
    shown = item;
    shownAt = performance.now();
    if (byId("guess")) byId("guess").textContent = "Show guess";
  }
  const earlier = browsing !== null;
  const said = earlier ? nameOf(item) + (item.comment ? ` (${item.comment})` : "") : "";
  note(earlier ? `Earlier image · you said: ${said}` : "");
  stage.show(item, earlier ? `Earlier image, your answer: ${said}` : "Image to label");
  for (const button of main.querySelectorAll("[data-label], [data-action]")) {
    const chosen = earlier && (button.dataset.action === item.action || +button.dataset.label === item.label);
    button.setAttribute("aria-pressed", chosen);
  }
  const opinions = item.opinions || [];
  byId("opinions").hidden = !opinions.length;
  const words = opinions.flatMap(one => [
    ", ", isolated(nameOf(one)), ` (${one.people})`,
    ...(one.comments || []).flatMap(comment => [": “", isolated(comment), "”"]),
  ]).slice(1);
  byId("opinions").replaceChildren("People disagree: ", ...words, ". Your answer decides.");
  if (byId("gold")) {
    byId("gold").hidden = !earlier || item.action !== "label";
    byId("gold").setAttribute("aria-pressed", Boolean(item.gold));
  }
  showProgress(work);
  const around = earlier ? past.slice(Math.max(0, browsing - 2), browsing) : past.slice(-1);
  stage.ahead([...ahead.slice(0, AHEAD), ...around]);
}

function ready() {
  shownAt = performance.now();
  last.show(past, browsing);
  stage.ahead([...ahead.slice(0, AHEAD), ...past.slice(-LAST)]);
}

// A picture that is gone for good is no longer among the next ones.
async function broken() {
  note("This image cannot be shown. Flag it (F) to go on, or wait: it is asked for again.");
  const item = shown;
  const answer = await fetch(nextOnes()).catch(() => null);
  const result = answer?.ok && await answer.json().catch(() => null);
  if (!result || item !== shown || !outbox.empty || browsing !== null) return;
  work = result;
  merge(work.images);
  if (ahead[0] !== item) show();
}

const nextOnes = () => `/api/next?queue=${work.queue}&count=${AHEAD}`;

// What the tools say about light and dark.
function tone() {
  const {picture} = stage, select = byId("preset");
  select.hidden = byId("window").hidden = !picture.deep;
  if (!picture.deep) return;
  const names = picture.windows.map(([name]) => name);
  if ([...select.options].map(option => option.value).join() !== names.join()) {
    select.replaceChildren(...names.map(name => new Option(name, name)));
  }
  select.value = stage.presetOf(picture);
  const [level, width] = stage.windowOf(picture).map(number => +number.toPrecision(4));
  byId("window").textContent = `level ${level}, width ${width}`;
}

function put(id, message) {
  byId(id).hidden = !message;
  byId(id).textContent = message;
}

function note(message) { put("which", message); }      // about the image on the screen
function banner(message) { put("banner", message); }   // about answers on their way

const say = message => { byId("status").textContent = message; };

// --- answering

function answer(action, label = null, comment = undefined) {
  const item = shown;
  if (!item) return;
  // Nobody can have seen what is not there yet. Of a picture that does not come one can say just that.
  if (!stage.ready && (stage.picture?.state !== "broken" || action === "label")) {
    return say("Wait for the picture: it is on its way.");
  }
  const seconds = Math.min((performance.now() - shownAt) / 1000, 86400);
  const given = {...item, action, label, comment, gold: false};
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
    sample: item.sample, action, label, comment, seconds: +seconds.toFixed(2), queue: work.queue,
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
      const at = past.findLastIndex(item => item.sample === undone.sample);
      if (at >= 0) past.splice(at, 1);
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

// With an answer that is sure, the image is a gold question for everybody else.
async function gold() {
  const item = shown;
  if (!byId("gold") || browsing === null || item?.action !== "label") return;
  const answer = await fetch("/api/gold", {
    method: "POST",
    headers: {"Content-Type": "application/json", "X-CSRF-Token": main.dataset.csrf},
    body: JSON.stringify({sample: item.sample, gold: !item.gold}),
  }).catch(() => null);
  const result = await answer?.json().catch(() => null);
  if (!answer?.ok || !result) return say(`Not saved: ${result?.error || "the site does not answer."}`);
  item.gold = result.gold;
  say(item.gold ? "Others will be asked this, as a check." : "No gold question any more.");
  show();
}

// --- keys and buttons

const doing = {
  undo,
  gold,
  guess: () => main.dataset.guess && guess(),
  help: () => byId("help").showModal(),
  guide: () => byId("guide")?.showModal(),
  search: () => search?.begin(),
  comment: () => shown && byId("comment").showModal(),
  back: () => goTo((browsing ?? past.length) - 1),
  forward() {
    if (browsing === null) return;
    browsing = browsing + 1 < past.length ? browsing + 1 : null;
    show();
    last.show(past, browsing);
  },
};

function goTo(position) {
  if (position < 0) return say("There is nothing earlier.");
  browsing = position;
  show();
  last.show(past, browsing);
}

const viewing = {
  "zoom-in": () => stage.zoomBy(1.5), "zoom-out": () => stage.zoomBy(1 / 1.5),
  "contrast-up": () => stage.toneBy(1.25), "contrast-down": () => stage.toneBy(0.8),
  "light-up": () => stage.toneBy(1, 1.15), "light-down": () => stage.toneBy(1, 1 / 1.15),
  preset: () => stage.chooseNext(), reset: () => stage.reset(),
};

listenToKeys({
  labels: new Map(classes.map(([key], label) => [key, label]).filter(([key]) => key)),
  answer, doing, viewing, step: (x, y) => stage.stepBy(x, y), searching: Boolean(search),
  goBack: count => count <= past.length && goTo(past.length - count),
});

document.addEventListener("click", event => {
  const button = event.target.closest("button");
  if (!button) return;
  const {label, action, view, back} = button.dataset;
  if (label !== undefined) answer("label", +label);
  else if (action) answer(action);
  else if (back) goTo(past.length - back);
  else if (button.dataset.do) doing[button.dataset.do]();
  else if (view) viewing[view]();
  if (event.detail) button.blur();  // after a click with the mouse, Space skips again
});

byId("preset").addEventListener("change", event => {
  stage.choose(event.target.value);
  event.target.blur();
});

listenToComments(byId("comment"), byId("comment-text"), comment => answer("flag", null, comment));

setInterval(() => showProgress(work), 20000);  // the deadline comes nearer
stayPresent(() => outbox.empty && nextOnes(), result => {
  if (!outbox.empty || browsing !== null) return;
  work = result;
  merge(work.images);
  show();
});
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
  if (stage.ready) ready();
});
