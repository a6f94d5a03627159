// Find a class by typing: what fits stays, the arrow keys choose, Enter answers. A word fits where one begins with it.

const plain = text => text.normalize("NFD").replace(/\p{M}/gu, "").toLowerCase();

export class Search {
  constructor(input, list, onChoice) {
    this.input = input;
    this.buttons = [...list.querySelectorAll("[data-label]")];
    this.groups = [...list.querySelectorAll(".group")];
    this.texts = this.buttons.map(button => plain(`${button.dataset.name} ${button.dataset.group}`));
    this.onChoice = onChoice;
    this.found = this.buttons;
    this.chosen = -1;  // in `found`
    input.addEventListener("input", () => this.filter());
    input.addEventListener("keydown", event => this.press(event));
    input.addEventListener("blur", () => setTimeout(() => this.clear(), 200));  // a click on a class comes first
  }

  begin() {
    this.input.focus();
    this.input.select();
  }

  filter() {
    const words = plain(this.input.value).split(/\s+/).filter(Boolean);
    const fits = text => words.every(word => (` ${text}`).replace(/[^\p{L}\p{N}]+/gu, " ").includes(` ${word}`));
    const inside = text => words.every(word => text.includes(word));
    const test = this.texts.some(fits) ? fits : inside;
    this.found = this.buttons.filter((button, k) => {
      button.hidden = !test(this.texts[k]);
      return !button.hidden;
    });
    for (const group of this.groups) {
      group.hidden = !this.found.some(button => button.dataset.group === group.dataset.name);
    }
    // A name that fits comes before one whose group does: Enter must not answer what nobody typed.
    const named = this.found.findIndex(button => test(plain(button.dataset.name)));
    this.choose(words.length && this.found.length ? Math.max(0, named) : -1);
  }

  choose(position) {
    this.found[this.chosen]?.classList.remove("chosen");
    for (const button of this.buttons) button.classList.remove("chosen");
    this.chosen = position;
    const button = this.found[position];
    button?.classList.add("chosen");
    button?.scrollIntoView({block: "nearest"});
    if (button) this.input.setAttribute("aria-activedescendant", button.id);
    else this.input.removeAttribute("aria-activedescendant");
  }

  press(event) {
    const step = {ArrowDown: 1, ArrowUp: -1}[event.key];
    if (step) {
      const count = this.found.length;
      if (count) this.choose((this.chosen + step + count) % count);
    } else if (event.key === "Enter" && this.chosen >= 0) {
      const {label} = this.found[this.chosen].dataset;
      this.input.blur();
      this.clear();
      this.onChoice(+label);
    } else if (event.key === "Escape") {
      this.input.blur();
      this.clear();
    } else {
      return;
    }
    event.preventDefault();
  }

  clear() {
    if (document.activeElement === this.input) return;
    this.input.value = "";
    this.filter();
  }
}
