// How far the round and the person are, and how long it will take.

const byId = id => document.getElementById(id);

export function showProgress(work) {
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
