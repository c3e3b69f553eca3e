"use strict";
// Keeps a study's page up to date: listens to what happens, fetches what has changed, and puts it in its place. What is quick is
// fetched apart from what has to be learned first.
const study = JSON.parse(document.getElementById("study").textContent);
const api = `/api/v1/studies/${study.path}`;
const byId = (id) => document.getElementById(id);
const NAMES = ["opened", "asked", "told", "failed", "retried", "released", "corrected", "voided", "restored", "confirmed", "measured", "trouble"];
const SHOWN = 12; // events that are listed

const make = (tag, properties = {}, ...children) => {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in element) element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null));
  return element;
};

const shortly = (value) => (typeof value === "number" ? String(Number(value.toPrecision(6))) : String(value));
const pairs = (values) => Object.entries(values ?? {}).map(([name, value]) => `${name} = ${shortly(value)}`).join(", ");
const passed = (seconds) =>
  seconds < 90 ? `${Math.max(Math.round(seconds), 0)} s` : seconds < 5400 ? `${Math.round(seconds / 60)} min` : `${(seconds / 3600).toFixed(1)} h`;

class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

// A request; an error that the server explains is Refused, one on the way there is whatever fetch throws.
const call = async (path, body, key) => {
  const options = body === undefined ? {} : { method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" } };
  if (key) options.headers["Idempotency-Key"] = key;
  const answer = await fetch(api + path, options);
  const found = await answer.json();
  if (!answer.ok) throw new Refused(answer.status, found.error.message);
  return found;
};

// --- whether the server is there

const told = { live: true, words: "" };
const state = (live, words) => {
  document.body.classList.toggle("away", !live);
  if (told.live !== live || told.words !== words) byId("state").textContent = words;
  Object.assign(told, { live, words });
};
const here = () => state(true, "Live: what happens appears here by itself.");
const away = (error) =>
  state(false, error instanceof Refused ? error.message : "The server does not answer. What is shown may be old; what you type is kept.");

// --- what is shown

const seen = {}; // the HTML of each part
const place = async (key, html) => {
  if (seen[key] === html) return;
  seen[key] = html;
  const section = byId(key);
  const part = section.querySelector(".part");
  await Promise.allSettled([...part.querySelectorAll(".drawing")].map((drawing) => drawing.drawn)); // Plotly minds being interrupted
  const before = part.querySelector("#filter");
  const filter = before?.value ?? "";
  const typing = before !== null && before === document.activeElement ? [before.selectionStart, before.selectionEnd] : null;
  const sorted = [...part.querySelectorAll("#table th")].findIndex((head) => head.hasAttribute("aria-sort"));
  const down = part.querySelector('#table th[aria-sort="descending"]') !== null;
  const scrolled = part.querySelector(".tall")?.scrollTop ?? 0;
  for (const drawing of part.querySelectorAll(".drawing")) Plotly.purge(drawing);
  part.innerHTML = html;
  section.hidden = html === "";
  document.querySelector(`nav a[href="#${key}"]`).hidden = html === "";
  show(part);
  for (const scroll of part.querySelectorAll(".scroll, pre")) scroll.tabIndex = 0; // so that keys can move it
  const again = part.querySelector("#filter");
  if (again && filter) {
    again.value = filter;
    again.dispatchEvent(new Event("input"));
  }
  if (again && typing) {
    again.focus({ preventScroll: true });
    again.setSelectionRange(...typing);
  }
  for (let i = 0; sorted >= 0 && i < (down ? 2 : 1); i++) part.querySelectorAll("#table th button")[sorted]?.click();
  const tall = part.querySelector(".tall");
  if (tall) tall.scrollTop = scrolled;
};

const tiles = (rows) =>
  byId("tiles").replaceChildren(
    ...rows.map(({ what, value, more }) =>
      make("div", { className: "tile" }, ...[["what", what], ["value", value], ["more", more]].map(([name, text]) => make("span", { className: name }, text)))
    )
  );

// A process is "host~machine/pid/start"; who asks by HTTP has the key of the request behind the name.
const whose = (owner) => (!owner ? "somebody" : owner === "person" ? "a person" : owner.replace(/ [0-9a-f]{32}$/, "").replace(/^(.*?)(?:~[^/]*)?\/(\d+)\/\d+$/, "$1, process $2"));

const now = (found) => {
  byId("share").value = found.share ?? 0;
  byId("share").hidden = found.rules.filter((rule) => rule.rule !== "failures").length < 2; // one has a bar of its own
  const left = found.seconds_left;
  byId("left").textContent = found.stopped
    ? `Stopped: ${found.stopped}.`
    : left === null ? "" : `About ${passed(left)} left, at the pace of the last runs.`;
  byId("rules").replaceChildren(
    ...found.rules.map((rule) =>
      make("li", {}, make("span", {}, `${rule.rule}: ${rule.words}`), make("progress", { max: 1, value: Math.min(rule.progress, 1), "aria-label": rule.rule }))
    )
  );
  const since = (query) => (query.state === "waiting" ? "waits for whoever asks next" : `${whose(query.owner)}, for ${passed(Date.now() / 1000 - query.asked_at)}`);
  const rows = found.open.map((query) =>
    make("li", {}, make("strong", {}, `query ${query.id}`), ` ${pairs(query.point)} `, make("span", { className: "soft" }, since(query)))
  );
  byId("open").replaceChildren(...(rows.length ? rows : [make("li", { className: "soft" }, "Nothing runs just now.")]));
  const ended = found.last.filter((query) => query.ended_at && (query.state === "done" || query.state === "failed")).sort((a, b) => a.ended_at - b.ended_at);
  for (const query of ended) say({ ...query, query: query.id, event: query.state === "done" ? "told" : "failed" }, new Date(1000 * query.ended_at));
};

const watchers = []; // of the snapshot: bench.js and what-if.js look too
const learners = [];

// One after the other; while one is under way, however many ask, there is one more after it.
const oneByOne = (work) => {
  let busy = false, again = false;
  return async () => {
    again = true;
    if (busy) return;
    busy = true;
    while (again) {
      again = false;
      try {
        await work();
        here();
      } catch (error) {
        away(error);
      }
    }
    busy = false;
  };
};

const quick = oneByOne(async () => {
  const found = await call("/snapshot");
  now(found);
  watchers.forEach((watcher) => watcher(found));
  const { parts, headline, why_stopped: why, tiles: rows } = await call("/parts");
  if (headline) byId("headline").textContent = `${headline} ${why}`;
  if (rows.length && !seen.learned) tiles(rows);
  for (const [key, html] of Object.entries(parts)) await place(key, html);
});

const learned = oneByOne(async () => {
  const busy = setTimeout(() => (byId("learning").textContent = "Learning from the latest runs; what was learned follows."), 700);
  const { parts, headline, why_stopped: why, tiles: rows, point } = await call("/learned").finally(() => {
    clearTimeout(busy);
    byId("learning").textContent = "";
  });
  byId("surrogate").hidden = !parts.learned;
  for (const [key, html] of Object.entries(parts)) await place(key, html);
  if (headline) byId("headline").textContent = `${headline} ${why}`;
  if (rows.length) tiles(rows);
  learners.forEach((learner) => learner(point));
});

// --- what happens

const heard = new Set(); // what ended, whether an event or a snapshot said so
const say = (event, at = new Date()) => {
  if (event.event === "told" || event.event === "failed") {
    const what = `${event.query} ${event.event}`;
    if (heard.has(what)) return;
    heard.add(what);
  }
  const what = event.words ?? `query ${event.query} ${event.event}: ${pairs(event.point)}${event.outputs ? ` → ${pairs(event.outputs)}` : ""}${event.reason ? ` (${event.reason.split("\n")[0]})` : ""}`;
  const list = byId("events");
  const today = at.toDateString() === new Date().toDateString();
  list.prepend(make("li", {}, make("time", {}, today ? at.toLocaleTimeString() : at.toLocaleString()), ` ${what}`));
  while (list.children.length > SHOWN) list.lastChild.remove();
};

// A page that nobody sees does not listen: a browser has six connections to a server, for all its tabs together.
let source = null;
const listen = () => {
  source?.close();
  source = null;
  if (document.hidden) return;
  const mine = (source = new EventSource(`${api}/events`));
  for (const name of NAMES) {
    mine.addEventListener(name, (message) => {
      const event = JSON.parse(message.data);
      if (name !== "opened" && name !== "measured") say(event);
      quick();
      learned();
    });
  }
  mine.onerror = () => {
    if (mine.readyState !== EventSource.CLOSED) return away(null);
    quick(); // it was refused, and says why; a stream does not try again by itself
    setTimeout(() => mine === source && listen(), 3000);
  };
};
document.querySelectorAll("nav").forEach(watch);
quick();
learned();
listen();
addEventListener("online", quick);
document.addEventListener("visibilitychange", listen);
setInterval(() => document.hidden || quick(), 30000); // for how long something runs, and if an event was lost
