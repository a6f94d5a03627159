// Which key does what. A class's own key comes before all others.

const REPEATED = new Set("+-=,.;:<>");  // keys that may be held down

export function listenToKeys({labels, answer, doing, viewing, step, searching, goBack}) {
  const keys = {
    " ": () => answer("skip"), f: () => answer("flag"), backspace: doing.undo, g: doing.guess, "?": doing.help,
    arrowleft: doing.back, arrowright: doing.forward, "+": viewing["zoom-in"], "=": viewing["zoom-in"],
    "-": viewing["zoom-out"], ".": viewing["contrast-up"], ",": viewing["contrast-down"], escape: viewing.reset,
    ":": viewing["light-up"], ">": viewing["light-up"], ";": viewing["light-down"], "<": viewing["light-down"],
    w: viewing.preset, d: doing.guide, ...(searching ? {"/": doing.search} : {}),
  };
  const shifted = {
    f: doing.comment, arrowleft: () => step(1, 0), arrowright: () => step(-1, 0),
    arrowup: () => step(0, 1), arrowdown: () => step(0, -1),
  };

  function actionOf(event) {
    const key = event.key.toLowerCase();
    if (event.shiftKey && shifted[key]) return shifted[key];
    if (labels.has(key)) return () => answer("label", labels.get(key));
    if (keys[key]) return keys[key];
    // A key of a digit that writes another sign, with Shift on most keyboards: so many answers back.
    const digit = +/^Digit([1-9])$/.exec(event.code)?.[1];
    return digit && key !== `${digit}` ? () => goBack(digit) : null;
  }

  // Who dictates or has a switch may not want that single keys answer.
  const single = document.getElementById("single-keys");
  single.checked = localStorage.getItem("single keys") !== "no";
  single.addEventListener("change", () => localStorage.setItem("single keys", single.checked ? "yes" : "no"));

  addEventListener("keydown", event => {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    if (event.key === " " && event.target.closest("button, a")) return;  // Space presses what has the focus
    if (event.target.closest("input, select, textarea")) return;
    if (!single.checked && event.key.length === 1) return;
    const action = actionOf(event);
    if (!action) return;
    event.preventDefault();
    // A key that is held down answers once, not about every image that follows.
    if (!event.repeat || REPEATED.has(event.key) || (event.shiftKey && event.key.startsWith("Arrow"))) action();
  });
}
