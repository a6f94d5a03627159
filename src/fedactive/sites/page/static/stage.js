// The image on the screen: zoomed and moved, with a window or contrast, all of which stay for the next image.

import {Pictures} from "./picture.js";

const SMALL = 160;  // below this many pixels, show pixels rather than blur
const STILL = 4;    // pixels that a click may move
const AGAIN = 3000;  // milliseconds until a picture that did not come is asked for again

const within = (low, value, high) => Math.min(high, Math.max(low, value));
const painted = () => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));

export class Stage {
  constructor(element, {onReady, onLoaded, onBroken, onTone}) {
    this.element = element;
    this.box = element.querySelector(".picture");
    this.on = {onReady, onBroken, onTone};
    this.pictures = new Pictures(() => {
      this.prepare();
      onLoaded();
    });
    this.following = [];
    this.picture = null;
    this.ready = false;  // what is to be answered about is on the screen
    this.preset = "";
    this.resetView();
    this.box.addEventListener("wheel", event => {
      event.preventDefault();
      const steps = within(-100, event.deltaY, 100) * (event.ctrlKey ? 0.01 : 0.0015);  // Ctrl: a touchpad's pinch
      this.zoomBy(Math.exp(-steps), this.at(event));
    }, {passive: false});
    this.box.addEventListener("pointerdown", event => this.grab(event));
    this.box.addEventListener("dblclick", () => this.reset());
    this.box.addEventListener("contextmenu", event => event.preventDefault());
    this.box.addEventListener("touchstart", event => this.pinch(event), {passive: false});
    new ResizeObserver(() => this.arrange()).observe(this.box);
  }

  // --- which image

  ahead(items) {
    this.following = items.slice(0, 2);
    this.pictures.ahead(items);
  }

  // Paint what comes next, so that it is there at once.
  prepare() {
    for (const item of this.following) {
      const picture = this.pictures.get(item);
      if (picture.deep && picture.state === "ready") picture.paint(this.windowOf(picture));
    }
  }

  show(item, alt) {
    const picture = this.pictures.first(item);
    const {element} = picture;
    element.id = "image";
    if (picture.deep) {
      element.setAttribute("role", "img");
      element.setAttribute("aria-label", alt);
    } else {
      element.alt = alt;
    }
    if (picture === this.picture && element.isConnected) return;
    this.put(picture);
    if (picture.state === "ready") this.arrange();  // at once: nobody is to see an empty stage in between
    picture.load().then(() => this.settle(picture));
  }

  async settle(picture) {
    if (picture !== this.picture) return;
    if (picture.state === "broken") {
      this.element.removeAttribute("aria-busy");
      this.pictures.forget(picture);
      setTimeout(() => picture === this.picture && this.show(picture.item, picture.element.alt ?? ""), AGAIN);
      return this.on.onBroken();
    }
    this.arrange();
    await painted();
    if (picture !== this.picture) return;
    this.ready = true;
    this.element.removeAttribute("aria-busy");
    this.on.onReady();
    this.prepare();
  }

  clear() { this.put(null); }

  put(picture) {
    this.picture = picture;
    this.ready = false;
    this.element.setAttribute("aria-busy", "true");
    const element = picture?.element ?? Object.assign(new Image(), {id: "image", alt: ""});
    document.getElementById("image").replaceWith(element);
  }

  // A small copy of a picture that is at hand.
  thumbnail(item, size) {
    const picture = this.pictures.known.get(item.image);
    if (picture?.state !== "ready") return null;
    if (picture.deep) picture.paint(this.windowOf(picture));
    const scale = size / Math.max(picture.width, picture.height);
    const canvas = document.createElement("canvas");
    Object.assign(canvas, {width: picture.width * scale || 1, height: picture.height * scale || 1});
    canvas.getContext("2d").drawImage(picture.element, 0, 0, canvas.width, canvas.height);
    return canvas;
  }

  // --- where one looks

  resetView() {
    this.zoom = 1;
    this.x = this.y = 0;
    this.stretch = this.light = 1;
  }

  reset() {
    this.resetView();
    this.preset = "";
    this.arrange();
  }

  // Where an event is, from the middle of the picture's box.
  at({clientX, clientY}) {
    const {left, top, width, height} = this.box.getBoundingClientRect();
    return {x: clientX - left - width / 2, y: clientY - top - height / 2};
  }

  zoomBy(factor, {x, y} = {x: 0, y: 0}) {
    const zoom = within(1, this.zoom * factor, 16);
    this.x = x - (x - this.x) * zoom / this.zoom;
    this.y = y - (y - this.y) * zoom / this.zoom;
    this.zoom = zoom;
    this.arrange();
  }

  moveBy(x, y) {
    this.x += x;
    this.y += y;
    this.arrange();
  }

  // Steps of an eighth of the box, for keys.
  stepBy(x, y) { this.moveBy(x * this.box.clientWidth / 8, y * this.box.clientHeight / 8); }

  grab(start) {
    if (start.pointerType === "touch" && !start.isPrimary) return;
    const toning = start.button === 2 || (start.button === 0 && start.shiftKey);
    if (!toning && (this.zoom === 1 || start.button !== 0)) return;
    let last = start, moved = false;
    const move = event => {
      const x = event.clientX - last.clientX, y = event.clientY - last.clientY;
      if (!moved && Math.hypot(x, y) < STILL) return;
      moved = true;
      last = event;
      if (this.pinching) return;
      if (toning) this.toneBy(Math.exp(x / 200), Math.exp(-y / 200));
      else this.moveBy(x, y);
    };
    const drop = event => {
      for (const kind of ["pointermove", "pointerup", "pointercancel"]) {
        this.box.removeEventListener(kind, kind === "pointermove" ? move : drop);
      }
      if (moved || toning || event.type !== "pointerup" || this.pinching) return;
      const {x, y} = this.at(event);  // a click brings this place into the middle
      this.moveBy(-x, -y);
    };
    this.box.setPointerCapture(start.pointerId);
    this.box.addEventListener("pointermove", move);
    this.box.addEventListener("pointerup", drop);
    this.box.addEventListener("pointercancel", drop);
  }

  // Two fingers zoom the picture, not the page.
  pinch(start) {
    if (start.touches.length !== 2 || this.pinching) return;
    start.preventDefault();
    this.pinching = true;
    const measure = ([one, other]) => ({
      apart: Math.hypot(one.clientX - other.clientX, one.clientY - other.clientY),
      clientX: (one.clientX + other.clientX) / 2, clientY: (one.clientY + other.clientY) / 2,
    });
    let last = measure(start.touches);
    const move = event => {
      if (event.touches.length !== 2) return;
      event.preventDefault();
      const now = measure(event.touches);
      this.x += now.clientX - last.clientX;
      this.y += now.clientY - last.clientY;
      this.zoomBy(now.apart / last.apart, this.at(now));
      last = now;
    };
    const end = event => {
      if (event.touches.length) return;  // until both fingers are up
      this.pinching = false;
      this.box.removeEventListener("touchmove", move);
      for (const kind of ["touchend", "touchcancel"]) this.box.removeEventListener(kind, end);
    };
    this.box.addEventListener("touchmove", move, {passive: false});
    for (const kind of ["touchend", "touchcancel"]) this.box.addEventListener(kind, end);
  }

  // --- light and dark

  toneBy(stretch, light = 1) {
    this.stretch = within(0.2, this.stretch * stretch, 16);
    this.light = within(0.1, this.light * light, 10);
    this.arrange();
  }

  choose(preset) {
    this.preset = preset;
    this.stretch = this.light = 1;
    this.arrange();
  }

  chooseNext() {
    const {picture} = this;
    if (picture?.state !== "ready" || !picture.deep) return;
    const names = picture.windows.map(([name]) => name);
    this.choose(names[(names.indexOf(this.presetOf(picture)) + 1) % names.length]);
  }

  presetOf(picture) {
    const names = picture.windows.map(([name]) => name);
    return names.includes(this.preset) ? this.preset : names[0];
  }

  // Level and width with which a picture is shown.
  windowOf(picture) {
    const preset = this.presetOf(picture);
    const [level, width] = picture.windows.find(([name]) => name === preset)[1];
    return [level - Math.log(this.light) * width / 2, width / this.stretch];
  }

  // --- drawing

  arrange() {
    const {picture} = this;
    if (picture?.state !== "ready") return;
    const {width, height, deep, element} = picture;
    const {clientWidth, clientHeight} = this.box;
    const fit = Math.min(clientWidth / width, clientHeight / height);
    // No edge comes further in than it was before zooming. So every place can be zoomed at, and none gets out of view.
    const [mostX, mostY] = [width, height].map(length => length * fit * (this.zoom - 1) / 2);
    this.x = within(-mostX, this.x, mostX);
    this.y = within(-mostY, this.y, mostY);
    const {style} = element;
    style.transform = `translate(${this.x}px, ${this.y}px) scale(${this.zoom})`;
    style.setProperty("--ratio", width / height);
    style.imageRendering = Math.max(width, height) < SMALL ? "pixelated" : "auto";
    this.element.classList.toggle("zoomed", this.zoom > 1);
    if (deep) {
      picture.paint(this.windowOf(picture));
    } else {
      style.filter = (this.light === 1 ? "" : `brightness(${this.light})`)
        + (this.stretch === 1 ? "" : ` contrast(${this.stretch})`);
    }
    this.on.onTone?.();
  }
}
