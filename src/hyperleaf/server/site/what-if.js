"use strict";
// Sliders for the inputs; the server predicts, and what it says is shown as it comes. Only the latest question is waited for.
const form = byId("sliders");
const STEPS = 1000;
const fields = {}; // by input: how it is read and set
let output = study.outputs[0].name;
let asking = false, changed = false, begun = false;

const digits = (value) => String(Number(value.toPrecision(5)));

const slider = (input) => {
  const { name, low, high, log, kind } = input;
  const label = `${name}${input.unit ? ` [${input.unit}]` : ""}`;
  const id = `what-if-${study.inputs.indexOf(input)}`;
  if (kind !== "real" && kind !== "integer") {
    const select = make("select", { id }, ...input.options.map((option, i) => make("option", { value: i }, String(option))));
    select.addEventListener("input", ask);
    fields[name] = { get: () => input.options[Number(select.value)], set: (value) => (select.value = input.options.indexOf(value)) };
    return make("div", { className: "slider" }, make("label", { htmlFor: id }, label), select);
  }
  const whole = kind === "integer";
  const range = make("input", { type: "range", id, min: 0, max: whole && !log ? high - low : STEPS, step: 1, "data-input": name });
  const exact = make("input", { className: "exact", inputMode: "decimal", autocomplete: "off", "aria-label": `${label}, as a number` });
  const there = () => {
    const share = Number(range.value) / Number(range.max);
    const value = log ? low * (high / low) ** share : low + share * (high - low);
    return whole ? Math.round(value) : Math.min(Math.max(value, low), high);
  };
  let value = low;
  const set = (wanted) => {
    value = wanted;
    const share = log ? Math.log(wanted / low) / Math.log(high / low) : (wanted - low) / (high - low);
    range.value = Math.round(share * Number(range.max));
    exact.value = shortly(wanted);
  };
  range.addEventListener("input", () => {
    value = whole ? there() : Number(there().toPrecision(6));
    value = Math.min(Math.max(value, low), high);
    exact.value = shortly(value);
    ask();
  });
  exact.addEventListener("change", () => {
    const typed = Number(exact.value);
    if (exact.value.trim() !== "" && typed >= low && typed <= high) {
      set(whole ? Math.round(typed) : typed);
      ask();
    } else exact.value = shortly(value);
  });
  fields[name] = { get: () => value, set };
  return make("div", { className: "slider" }, make("label", { htmlFor: id }, label), range, exact);
};

const less = (values, others) => values.map((value, i) => value - others[i]);
const draw_slices = async (found) => {
  const place = byId("slices");
  if (!place.children.length) place.append(...found.slices.map(() => make("div", { className: "slice", role: "img" }))); // all, so that each has its width
  for (const [i, slice] of found.slices.entries()) {
    const box = place.children[i];
    box.setAttribute("aria-label", `${found.output} along ${slice.input}`);
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    const [ink, line, band] = dark ? ["#e6eaef", "#7cb8ee", "rgba(124,184,238,0.25)"] : ["#1c2430", "#005a9c", "rgba(0,90,156,0.18)"];
    const middle = { x: slice.x, y: slice.mean, mode: "lines", line: { color: line }, showlegend: false, hovertemplate: "%{y:.5g}<extra></extra>" };
    const here = { x: [slice.here], y: [found.mean], mode: "markers", marker: { color: "#c400c4", size: 10 }, showlegend: false, hoverinfo: "skip" };
    const edge = { x: slice.x, mode: "lines", line: { width: 0 }, hoverinfo: "skip", showlegend: false };
    const bars = { type: "data", symmetric: false, array: less(slice.high, slice.mean), arrayminus: less(slice.mean, slice.low), color: band, thickness: 14, width: 0 };
    const data = slice.names // nothing lies between two choices
      ? [{ ...middle, mode: "markers", marker: { color: line, size: 8 }, error_y: bars }, here]
      : [{ ...edge, y: slice.low }, { ...edge, y: slice.high, fill: "tonexty", fillcolor: band }, middle, here];
    const safe = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
    const axis = { title: { text: safe(slice.label) }, type: slice.log ? "log" : "linear", color: ink, exponentformat: "power", zeroline: false };
    if (slice.names) Object.assign(axis, { tickvals: slice.x, ticktext: slice.names.map(safe), range: [-0.5, slice.names.length - 0.5] });
    else if (slice.log) Object.assign(axis, { tickformat: "~g" }, slice.x.at(-1) >= 100 * slice.x[0] ? { dtick: 1 } : {});
    const layout = {
      autosize: true, margin: { l: 60, r: 16, t: 12, b: 54 }, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { color: ink, size: 12 }, xaxis: axis, yaxis: { color: ink, exponentformat: "power", zeroline: false, gridcolor: dark ? "#37414c" : "#e8ebef" }, uirevision: "same",
    };
    await Plotly.react(box, data, layout, { displayModeBar: false, responsive: true });
  }
};

const expected = (found) => {
  const unit = found.unit ? ` ${found.unit}` : "";
  byId("expected").replaceChildren(
    make("p", { className: "guess" }, `${found.output} = `, make("strong", { id: "mean" }, digits(found.mean)), ` ± `, make("span", { id: "std" }, digits(found.std)), unit),
    make("p", {}, "90 % of the probability: ", make("span", { id: "low" }, digits(found.low)), " to ", make("span", { id: "high" }, digits(found.high)), unit),
    make("p", { className: "soft" }, `Learned from ${found.num_observations} runs.${found.allowed ? "" : " A constraint forbids this point."}`)
  );
};

const ask = async () => {
  changed = true;
  if (asking) return;
  asking = true;
  while (changed) {
    changed = false;
    try {
      const point = begun ? Object.fromEntries(Object.entries(fields).map(([name, field]) => [name, field.get()])) : null;
      const found = await call("/slices", { point, output, wait: false });
      if (found.point === null) {
        byId("expected").textContent = found.words;
        continue;
      }
      if (!begun) for (const [name, value] of Object.entries(found.point)) fields[name].set(value);
      begun = true;
      form.hidden = false;
      if (!changed) {
        expected(found);
        await draw_slices(found);
      }
    } catch (error) {
      if (!(error instanceof Refused)) away(error);
      else byId("expected").textContent = error.message;
    }
  }
  asking = false;
};

form.append(...study.inputs.map(slider));
if (study.outputs.length > 1) {
  const select = make("select", { id: "what-if-output" }, ...study.outputs.map(({ name }) => make("option", { value: name }, name)));
  select.addEventListener("input", () => {
    output = select.value;
    ask();
  });
  form.prepend(make("div", { className: "slider" }, make("label", { htmlFor: "what-if-output" }, "Output"), select));
}
form.addEventListener("submit", (event) => event.preventDefault());
learners.push(ask);
