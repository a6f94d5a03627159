// One picture of the site, and the pictures that are at hand. A picture of 8 bits is an image element. A deeper one is
// a canvas and its values, which a window (level and width) turns into greys.

const AT_ONCE = 3;                   // loads: answers must not wait behind pictures
const KEPT = 40, BYTES = 256 << 20;  // pictures at hand, and what their values may take

export class Picture {
  constructor(item) {
    this.item = item;
    this.deep = Boolean(item.values);
    this.element = document.createElement(this.deep ? "canvas" : "img");
    this.element.draggable = false;
    this.element.dataset.image = item.image;
    this.state = "new";  // then "loading", "ready" or "broken"
    this.bytes = 0;
  }

  get width() { return this.element.naturalWidth ?? this.element.width; }
  get height() { return this.element.naturalHeight ?? this.element.height; }

  load() {
    if (this.state === "new") {
      this.state = "loading";
      this.loaded = (this.deep ? this.loadValues() : this.loadImage())
        .then(() => { this.state = "ready"; }, () => { this.state = "broken"; });
    }
    return this.loaded;
  }

  async loadImage() {
    this.element.src = this.item.image;
    await this.element.decode();
  }

  async loadValues() {
    const answer = await fetch(this.item.values);
    if (!answer.ok) throw new Error(answer.statusText);
    const about = JSON.parse(answer.headers.get("X-Picture"));
    const values = new Uint16Array(await answer.arrayBuffer());
    if (values.length !== about.width * about.height) throw new Error("incomplete");
    Object.assign(this, {about, values, bytes: values.byteLength});
    Object.assign(this.element, {width: about.width, height: about.height});
  }

  // The windows one may choose from; the first is the one to begin with.
  get windows() {
    const {low, step, most, window, hounsfield} = this.about;
    const span = Math.max(step * most, step);
    return [
      ...(this.item.window ? [["As in training", this.item.window]] : []),
      ["Picture’s own", window],
      ["Whole range", [low + span / 2, span]],
      ...(hounsfield ? TISSUES : []),
    ];
  }

  paint([level, width]) {
    const key = `${level} ${width}`;
    if (this.painted === key) return;
    this.painted = key;
    const {low, step, most, inverted} = this.about;
    const greys = new Uint32Array(most + 1);
    for (let k = 0; k <= most; k++) {
      const grey = Math.min(255, Math.max(0, Math.floor((low + step * k - (level - width / 2)) * 255 / width)));
      const seen = inverted ? 255 - grey : grey;
      greys[k] = 0xff000000 | seen << 16 | seen << 8 | seen;
    }
    const context = this.element.getContext("2d");
    const image = context.createImageData(this.width, this.height);
    const pixels = new Uint32Array(image.data.buffer);
    for (let k = 0; k < pixels.length; k++) pixels[k] = greys[this.values[k]];
    context.putImageData(image, 0, 0);
  }
}

// Of computed tomography, in Hounsfield units.
const TISSUES = [
  ["Brain", [40, 80]], ["Soft tissue", [40, 400]], ["Mediastinum", [50, 350]], ["Lung", [-600, 1500]],
  ["Bone", [400, 1800]],
];

export class Pictures {
  constructor(onLoaded) {
    this.onLoaded = onLoaded;
    this.known = new Map();
    this.queue = [];
    this.loading = 0;
  }

  // The picture that is wanted now: it waits for no other.
  first(item) {
    const picture = this.get(item);
    this.queue = this.queue.filter(other => other !== picture);
    picture.load();
    return picture;
  }

  // Load these one after the other, in their order, and forget pictures that nobody has wanted for long.
  ahead(items) {
    this.queue = items.map(item => this.get(item)).filter(picture => picture.state === "new");
    this.next();
    const wanted = new Set(items.map(item => item.image));
    let bytes = [...this.known.values()].reduce((sum, picture) => sum + picture.bytes, 0);
    for (const [image, picture] of this.known) {
      if (this.known.size <= KEPT && bytes <= BYTES) break;
      if (wanted.has(image) || picture.element.isConnected) continue;
      this.known.delete(image);
      bytes -= picture.bytes;
    }
  }

  next() {
    while (this.loading < AT_ONCE && this.queue.length) {
      this.loading++;
      this.queue.shift().load().finally(() => {
        this.loading--;
        this.onLoaded();
        this.next();
      });
    }
  }

  get(item) {
    let picture = this.known.get(item.image);
    if (!picture) this.known.set(item.image, picture = new Picture(item));
    return picture;
  }

  forget(picture) { this.known.delete(picture.item.image); }
}
