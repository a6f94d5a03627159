// Change who may sign in and what they may do. A new token is shown until the page is left, and never again.

const main = document.getElementById("people");
const told = document.getElementById("told");

function tell(...what) {
  told.hidden = false;
  told.replaceChildren(...what);
}

async function post(path, body) {
  const answer = await fetch(path, {
    method: "POST",
    headers: {"Content-Type": "application/json", "X-CSRF-Token": main.dataset.csrf},
    body: JSON.stringify(body),
  }).catch(() => null);
  const result = await answer?.json().catch(() => null);
  if (answer?.ok && result) return result;
  tell(result?.error || "The site does not answer. Try again.");
  return null;
}

function tellToken({name, token}) {
  const code = Object.assign(document.createElement("code"), {textContent: token});
  tell(`Token of ${name}, shown only now: `, code);
}

const doing = {
  async renew(name) {
    if (!confirm(`End the token of ${name}, and make a new one?`)) return;
    const result = await post("/api/people/renew", {name});
    if (result) tellToken(result);
  },
  async remove(name) {
    if (!confirm(`Let nobody sign in as ${name} any more?`)) return;
    if (await post("/api/people/remove", {name})) location.reload();
  },
};

main.addEventListener("click", async event => {
  const button = event.target.closest("button");
  if (!button) return;
  const {do: what, gold} = button.dataset;
  if (what) doing[what](button.closest("tr").dataset.name);
  if (gold && await post("/api/gold", {sample: +gold, gold: false})) location.reload();
});

main.addEventListener("change", async event => {
  const row = event.target.closest("tr");
  if (!row || event.target.name !== "part") return;
  const result = await post("/api/people/role", {name: row.dataset.name, part: event.target.value});
  if (result) tell(`${result.name} is ${result.part} now.`);
  else event.target.value = [...event.target.options].find(option => option.defaultSelected).value;
});

document.getElementById("add-person").addEventListener("submit", async event => {
  event.preventDefault();
  const {name, part} = event.target.elements;
  const result = await post("/api/people", {name: name.value, part: part.value});
  if (!result) return;
  event.target.reset();
  tellToken(result);
});
