// The last answers as a row of small pictures, the latest first.

const SIZE = 44;

export class Last {
  constructor(row, stage, nameOf, count) {
    Object.assign(this, {row, stage, nameOf, count});
    this.thumbnails = new Map();  // by image
  }

  show(past, browsing) {
    const latest = past.slice(-this.count).reverse();
    for (const {image} of latest) {
      const drawn = this.thumbnails.get(image) ?? this.stage.thumbnail({image}, SIZE);
      if (drawn) this.thumbnails.set(image, drawn);
    }
    const wanted = new Set(latest.map(({image}) => image));
    for (const image of this.thumbnails.keys()) if (!wanted.has(image)) this.thumbnails.delete(image);
    const focused = this.row.contains(document.activeElement) && document.activeElement.dataset.back;
    this.row.replaceChildren(...latest.map((item, k) => this.entry(item, k + 1, past.length - 1 - k === browsing)));
    if (focused) this.row.querySelector(`[data-back="${focused}"]`)?.focus();
  }

  entry(item, back, current) {
    const name = this.nameOf(item);
    const button = Object.assign(document.createElement("button"), {type: "button", title: name});
    button.dataset.back = back;
    button.setAttribute("aria-keyshortcuts", `Shift+${back}`);
    if (current) button.setAttribute("aria-current", "true");
    const key = Object.assign(document.createElement("kbd"), {textContent: `⇧${back}`, ariaHidden: "true"});
    const place = Object.assign(document.createElement("span"), {className: "hidden", textContent: `${back} back: `});
    const label = Object.assign(document.createElement("bdi"), {textContent: name});
    button.append(this.thumbnails.get(item.image) ?? document.createElement("canvas"), key, place, label);
    const entry = document.createElement("li");
    entry.append(button);
    return entry;
  }
}
