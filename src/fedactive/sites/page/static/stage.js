// The image on the screen: loaded ahead of time, zoomed, moved, with more or less contrast.

const SMALL = 160;  // below this many pixels, show pixels rather than blur

export class Stage {
  constructor(element) {
    this.element = element;
    this.image = element.querySelector("img");
    this.loaded = new Map();
    this.contrast = 1;
    this.resetZoom();
    element.addEventListener("wheel", event => {
      event.preventDefault();
      this.zoomBy(event.deltaY < 0 ? 1.15 : 1 / 1.15);
    }, {passive: false});
    element.addEventListener("pointerdown", event => this.grab(event));
    element.addEventListener("dblclick", () => this.reset());
  }

  prefetch(items) {
    for (const {image} of items) {
      if (this.loaded.has(image)) continue;
      const element = new Image();
      element.src = image;
      element.draggable = false;
      element.decode().catch(() => {});
      this.loaded.set(image, element);
    }
    const wanted = new Set(items.map(item => item.image));
    for (const [image, element] of this.loaded) {
      if (this.loaded.size > 40 && !wanted.has(image) && element !== this.image) this.loaded.delete(image);
    }
  }

  show(item, alt, onBroken) {
    this.prefetch([item]);
    const next = this.loaded.get(item.image);
    next.alt = alt;
    next.id = "image";
    next.onerror = onBroken;
    next.onload = () => this.paint();
    if (next !== this.image) this.image.replaceWith(next);
    this.image = next;
    if (next.complete && !next.naturalWidth) onBroken();
    this.resetZoom();
  }

  clear() {
    const nothing = new Image();
    nothing.id = "image";
    this.image.replaceWith(nothing);
    this.image = nothing;
  }

  resetZoom() {
    this.zoom = 1;
    this.x = this.y = 0;
    this.paint();
  }

  reset() {
    this.contrast = 1;
    this.resetZoom();
  }

  zoomBy(factor) {
    this.zoom = Math.min(16, Math.max(1, this.zoom * factor));
    if (this.zoom === 1) this.x = this.y = 0;
    this.paint();
  }

  contrastBy(factor) {
    this.contrast = Math.min(8, Math.max(0.2, this.contrast * factor));
    this.paint();
  }

  grab(start) {
    if (this.zoom === 1 || start.target.closest("button")) return;
    const {x, y} = this;
    const move = event => {
      this.x = x + event.clientX - start.clientX;
      this.y = y + event.clientY - start.clientY;
      this.paint();
    };
    const drop = () => {
      this.element.removeEventListener("pointermove", move);
      this.element.removeEventListener("pointerup", drop);
      this.element.removeEventListener("pointercancel", drop);
    };
    this.element.setPointerCapture(start.pointerId);
    this.element.addEventListener("pointermove", move);
    this.element.addEventListener("pointerup", drop);
    this.element.addEventListener("pointercancel", drop);
  }

  paint() {
    const {style, naturalWidth, naturalHeight} = this.image;
    style.transform = `translate(${this.x}px, ${this.y}px) scale(${this.zoom})`;
    style.setProperty("--ratio", naturalWidth / naturalHeight || 0);
    style.filter = this.contrast === 1 ? "" : `contrast(${this.contrast})`;
    style.imageRendering = Math.max(naturalWidth, naturalHeight) < SMALL ? "pixelated" : "auto";
    this.element.classList.toggle("zoomed", this.zoom > 1);
  }
}
