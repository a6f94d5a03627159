// While somebody is here, the site keeps the next images for them. After a while away others may have got them.

const BEAT = 20000;  // milliseconds between two words to the site
const IDLE = 60000;  // after which nobody is here

// `ask` returns where to ask for the next images, or nothing while that should wait. `onReturn` gets them when
// somebody comes back.
export function stayPresent(ask, onReturn) {
  let active = performance.now(), asked = performance.now();
  const away = () => performance.now() - active > IDLE;

  async function beat(back) {
    const address = ask();
    if (document.hidden || !address || performance.now() - asked < BEAT / 2) return;
    asked = performance.now();
    const answer = await fetch(address).catch(() => null);
    if (back && answer?.ok) onReturn(await answer.json());
  }

  for (const kind of ["keydown", "pointermove", "pointerdown"]) {
    addEventListener(kind, () => {
      const back = away();
      active = performance.now();
      if (back) beat(true);
    }, {passive: true});
  }
  setInterval(() => away() || beat(false), BEAT);
}
