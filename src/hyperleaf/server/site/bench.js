"use strict";
// Answering: what is typed is kept in this browser until the server has it. Each answer has a key of its own, so that one that is
// sent twice, because the connection broke before the server could say so, is told once.
const KEPT = `hyperleaf answers ${study.name}`, TYPED = `hyperleaf typed ${study.name}`, WHO = "hyperleaf who";
const RETRY = 3000;

const stored = (name, otherwise) => {
  try {
    return JSON.parse(localStorage.getItem(name)) ?? otherwise;
  } catch {
    return otherwise;
  }
};
const store = (name, value) => localStorage.setItem(name, JSON.stringify(value));
const newKey = () => [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
const who = () => byId("who").value.trim() || "somebody at the page";
byId("who").value = stored(WHO, "");
byId("who").addEventListener("input", () => store(WHO, byId("who").value));

const note = (words, level = "good", ...more) => {
  const line = make("p", { className: `note ${level}` }, words, ...more);
  byId("said").prepend(line);
  while (byId("said").children.length > 4) byId("said").lastChild.remove();
};

// --- what waits to be sent

const waiting = () => stored(KEPT, []);
const change = (key, values) => store(KEPT, waiting().map((one) => (one.key === key ? { ...one, ...values } : one)));
const drop = (key) => store(KEPT, waiting().filter((one) => one.key !== key));

const list_kept = () => {
  byId("kept").replaceChildren(
    ...waiting().map((one) => {
      const state = one.error ? `was refused: ${one.error}` : "is kept, and sent when the server is there";
      const away_with = make("button", { type: "button" }, one.error ? "Understood" : "Throw away");
      away_with.addEventListener("click", () => {
        drop(one.key);
        list_kept();
        cards_again();
      });
      return make("li", { className: one.error ? "refused" : "" }, make("strong", {}, one.words), ` ${state} `, away_with);
    })
  );
};

let sending = false;
const send_all = async () => {
  if (sending) return;
  sending = true;
  try {
    for (let one; (one = waiting().find((each) => !each.error)); ) {
      try {
        const found = await call(one.path, one.body, one.key);
        drop(one.key);
        done(one, found);
        here();
      } catch (error) {
        if (!(error instanceof Refused)) throw error;
        if (error.status >= 500 || error.status === 408) throw error;
        if (error.status === 401) throw error; // the server was started anew: open its new link, and this is sent
        change(one.key, { error: error.message });
        note(`${one.words} was refused: ${error.message}`, "warning");
      }
      list_kept();
    }
  } catch (error) {
    away(error);
    setTimeout(send_all, RETRY);
  }
  sending = false;
  list_kept();
  cards_again();
  quick();
};

const done = (one, found) => {
  forget(one.query);
  const twice = found.told === false || found.changed === false || found.failed === false;
  note(`${one.words}${twice ? ": known before, nothing changed." : found.retried ? ", and is offered again." : found.told ? ": kept." : "."}`);
  for (const suspect of found.suspects ?? []) {
    const again = make("button", { type: "button" }, "Look at it again");
    again.addEventListener("click", () => look_at(suspect.query_id));
    note(`Look again at ${suspect.words} `, "warning", again);
  }
};

const send = (query, path, body, words) => {
  store(KEPT, [...waiting(), { key: newKey(), query, path, body, words, at: Date.now() }]);
  list_kept();
  cards_again();
  send_all();
};

// --- what is typed

const typed = () => stored(TYPED, {});
const forget = (query) => {
  const { [query]: _, ...rest } = typed();
  store(TYPED, rest);
};

// Names are a study's own: a form that knew its fields by them would stumble over an input called "length".
const field = (query, { name, unit }, value, hint) => {
  const id = `field-${query}-${name}`;
  const input = make("input", { id, "data-name": name, inputMode: "text", autocomplete: "off", autocapitalize: "off", spellcheck: false, value: value ?? "", placeholder: hint ?? "" });
  return make("div", { className: "field" }, make("label", { htmlFor: id }, `${name}${unit ? ` [${unit}]` : ""}`), input);
};

const read = (block) => Object.fromEntries([...block.querySelectorAll("input")].map((one) => [one.dataset.name, one.value.trim()]));
const given = (values) => Object.fromEntries(Object.entries(values).filter(([, value]) => value !== ""));
const words = (id, label, value) => {
  const input = make("input", { id, autocomplete: "off", value: value ?? "" });
  return [input, make("div", { className: "fields" }, make("div", { className: "field" }, make("label", { htmlFor: id }, label), input))];
};

const card = (query) => {
  const { values: before = {}, reason: excuse } = typed()[query.id] ?? {};
  const form = make("form", { className: "card", "data-query": query.id, noValidate: true });
  const point = make("dl", {}, ...study.inputs.flatMap(({ name, unit }) => [make("dt", {}, name), make("dd", {}, `${shortly(query.point[name])}${unit ? ` ${unit}` : ""}`)]));
  const outputs = make("div", { className: "fields" }, ...study.outputs.map((one) => field(query.id, one, before[one.name])));
  const set = make("div", { className: "fields" }, ...study.inputs.map((one) => field(query.id, one, before[one.name], shortly(query.point[one.name]))));
  const moved = make("details", { open: study.inputs.some(({ name }) => before[name]) }, make("summary", {}, "An input was set otherwise"), set);
  const [reason, why_failed] = words(`reason-${query.id}`, "Why it failed", excuse);
  const failed = make("details", { open: Boolean(excuse) }, make("summary", {}, "The run failed"), why_failed, make("button", { type: "button", className: "large", value: "failed" }, "Say that it failed"));
  form.append(
    make("h3", {}, `Query ${query.id}`), point, outputs, moved,
    make("p", { className: "buttons" }, make("button", { type: "submit", className: "large main" }, "Tell"), make("button", { type: "button", className: "large", value: "release" }, "Give it back"),
      make("button", { type: "button", className: "large", value: "void" }, "Void")),
    failed
  );
  const values = () => given({ ...read(outputs), ...read(set) });
  form.addEventListener("input", () => store(TYPED, { ...typed(), [query.id]: { values: values(), reason: reason.value } }));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const told = values();
    send(query.id, `/queries/${query.id}/tell`, { values: told, look: true }, `query ${query.id}: ${pairs(told) || "nothing"}`);
  });
  form.addEventListener("click", ({ target }) => {
    if (target.value === "failed") send(query.id, `/queries/${query.id}/failed`, { reason: reason.value.trim(), attempt: query.attempt }, `query ${query.id} failed`);
    if (target.value === "release") send(query.id, `/queries/${query.id}/release`, { owner: query.owner }, `query ${query.id} given back`);
    if (target.value === "void") send(query.id, `/queries/${query.id}/void`, { who: who() }, `query ${query.id} voided`);
  });
  return form;
};

let open_ = [];
const cards_again = () => {
  const sent = new Set(waiting().filter((one) => !one.error).map((one) => one.query));
  const wanted = open_.filter((query) => query.owner === "person" && query.state === "running" && !sent.has(query.id));
  const cards = new Map([...document.querySelectorAll(".card[data-query]")].map((each) => [Number(each.dataset.query), each]));
  for (const [id, each] of cards) if (!wanted.some((query) => query.id === id)) each.remove();
  for (const query of wanted) if (!cards.has(query.id)) byId("cards").append(card(query));
};
watchers.push((found) => {
  open_ = found.open;
  cards_again();
});

byId("ask").addEventListener("click", async () => {
  byId("ask").disabled = true;
  byId("ask").textContent = "Choosing …";
  const key = newKey();
  try {
    const { queries } = await call("/ask", { n: 1 }, key);
    open_ = [...open_.filter((query) => query.id !== queries[0].id), ...queries];
    cards_again();
    document.querySelector(`.card[data-query="${queries[0].id}"]`)?.scrollIntoView({ block: "center" });
    quick();
  } catch (error) {
    if (error instanceof Refused) note(error.message, "warning");
    else note("The server does not answer, and a query is its to give. Try again later.", "warning");
  }
  byId("ask").disabled = false;
  byId("ask").textContent = "Ask for the next query";
});

// --- putting right

const look_at = async (number) => {
  byId("number").value = number;
  const place = byId("chosen");
  let query;
  try {
    query = await call(`/queries/${encodeURIComponent(String(number).trim())}`);
  } catch (error) {
    place.replaceChildren(make("p", { className: "note warning" }, error instanceof Refused ? error.message : "The server does not answer. Look again later."));
    return;
  }
  const seen_change = query.changes.reduce((last, one) => Math.max(last, one.number), 0);
  const form = make("form", { className: "card", noValidate: true });
  const places = { ...query.place, ...query.outputs };
  const all = [...study.outputs, ...study.inputs].map((one) => field(`right-${query.id}`, one, query.outputs ? shortly_exact(places[one.name]) : ""));
  const fields_ = make("div", { className: "fields" }, ...all);
  const [why, because] = words(`why-${query.id}`, "Why");
  const button = (value, words) => make("button", { type: "button", className: "large", value }, words);
  const done = query.state === "done";
  form.append(
    make("h3", {}, `Run ${query.id}, ${query.state}`), make("p", {}, `${pairs(query.place)}${query.outputs ? ` → ${pairs(query.outputs)}` : ""}`),
    done ? fields_ : null, because,
    make("p", { className: "buttons" }, done ? make("button", { type: "submit", className: "large main" }, "Correct") : null, query.state === "void" ? button("restore", "Restore") : button("void", "Void"),
      done ? button("confirm", "It is right") : null, query.state === "running" ? button("release", "Give it back") : null)
  );
  const body = () => ({ why: why.value.trim(), who: who(), seen: seen_change });
  const send_it = (what, more, words) => {
    send(0, `/queries/${query.id}/${what}`, { ...body(), ...more }, words);
    place.replaceChildren();
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const values = Object.fromEntries(Object.entries(read(fields_)).filter(([name, value]) => value !== shortly_exact(places[name])));
    send_it("correct", { values }, `run ${query.id} corrected: ${pairs(values)}`);
  });
  form.addEventListener("click", ({ target }) => {
    if (target.value === "release") send(0, `/queries/${query.id}/release`, { owner: query.owner }, `query ${query.id} given back`), place.replaceChildren();
    else if (["void", "restore", "confirm"].includes(target.value)) send_it(target.value, {}, `run ${query.id}: ${target.textContent.toLowerCase()}`);
  });
  place.replaceChildren(form);
  form.scrollIntoView({ block: "center" });
};
const shortly_exact = (value) => String(value);

byId("choose").addEventListener("submit", (event) => {
  event.preventDefault();
  look_at(byId("number").value);
});
byId("runs").addEventListener("click", ({ target }) => {
  const row = target.closest("tbody tr");
  if (row) look_at(row.cells[0].textContent);
});
addEventListener("online", send_all);
list_kept();
send_all();
