"use strict";
// Says of each study how far it is; new ones appear by themselves.
const PERIOD = 5000;
const state = document.getElementById("state");
const list = document.getElementById("studies");

const duration = (seconds) =>
  seconds < 90 ? `${Math.round(seconds)} s` : seconds < 5400 ? `${Math.round(seconds / 60)} min` : `${(seconds / 3600).toFixed(1)} h`;

const words = (study) => {
  const counts = Object.entries(study.counts).filter(([, count]) => count > 0);
  const said = counts.map(([name, count]) => `${count} ${name}`).join(", ") || "nothing asked yet";
  if (study.stopped) return `${said} · stopped: ${study.stopped}`;
  return study.seconds_left ? `${said} · about ${duration(study.seconds_left)} left` : said;
};

const look = async () => {
  try {
    const answer = await fetch("/api/v1/studies");
    if (!answer.ok) throw new Error((await answer.json()).error.message);
    const { studies } = await answer.json();
    const shown = new Map([...list.querySelectorAll("li[data-name]")].map((item) => [item.dataset.name, item]));
    if (studies.length !== shown.size || studies.some((study) => !shown.has(study.name))) return location.reload();
    for (const study of studies) {
      const item = shown.get(study.name);
      item.querySelector(".said").textContent = [study.description, words(study)].filter(Boolean).join(" · ");
      const progress = item.querySelector("progress");
      progress.hidden = study.share === null;
      progress.value = study.share ?? 0;
    }
    state.textContent = `${studies.length} ${studies.length === 1 ? "study" : "studies"}, as of ${new Date().toLocaleTimeString()}`;
  } catch (error) {
    state.textContent = `The server does not answer (${error.message}). What is shown may be old.`;
  }
};
look();
setInterval(() => document.hidden || look(), PERIOD);
