// Answers on their way to the site. They are sent one after another, in order, until the site confirms them.
// They survive a reload, and each has a key, so that one sent twice counts once. While the site does not answer or
// cannot write, they wait. An answer that the site refuses is dropped, so that it does not hold back later ones.

export class Outbox {
  constructor(csrf, name, {onConfirmed, onRefused, onTrouble}) {
    this.csrf = csrf;
    this.name = name;
    this.on = {onConfirmed, onRefused, onTrouble};
    this.waiting = JSON.parse(sessionStorage.getItem(name) || "[]");
    this.sending = false;
    this.troubled = false;
    this.leaving = false;
    addEventListener("beforeunload", event => {
      if (this.waiting.length && !this.leaving) event.preventDefault();
    });
  }

  get empty() { return this.waiting.length === 0; }

  has(sample) { return this.waiting.some(change => change.body.sample === sample); }

  put(path, body) {
    this.waiting.push({path, body: {...body, key: crypto.randomUUID()}});
    this.keep();
    this.send();
  }

  keep() { sessionStorage.setItem(this.name, JSON.stringify(this.waiting)); }

  async send() {
    if (this.sending) return;
    this.sending = true;
    while (this.waiting.length) {
      const change = this.waiting[0];
      let answer = null, result = null;
      try {
        answer = await fetch(change.path, {
          method: "POST",
          headers: {"Content-Type": "application/json", "X-CSRF-Token": this.csrf},
          body: JSON.stringify(change.body),
        });
        result = await answer.json();
      } catch {}  // no answer, an incomplete one, or one from something else than the site
      if (result === null || answer.status === 503 || answer.status === 429) {
        const reason = result?.error || "The site does not answer.";
        this.troubled = true;
        this.on.onTrouble(`${reason} ${this.waiting.length} not saved yet; trying again.`);
        await new Promise(resume => setTimeout(resume, 2000));
        continue;
      }
      // Signed out, or signed in again in another window: the next page sends what is waiting.
      if (answer.status === 401 || answer.status === 403) {
        this.leaving = true;
        location.assign("/sign-in");
        return;
      }
      this.waiting.shift();
      this.keep();
      if (this.troubled) this.on.onTrouble("");
      this.troubled = false;
      if (answer.ok) this.on.onConfirmed(change, result);
      else this.on.onRefused(change, result.error);
    }
    this.sending = false;
  }
}
