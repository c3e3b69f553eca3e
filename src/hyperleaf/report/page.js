"use strict";
// Draws the figures whose JSON stands in the page, says where something is wider than the screen, and makes the table of runs
// sortable, filterable and savable.
const narrow = (box, layout) => {
  // A figure of one column is drawn as narrow as its place, with thinner margins.
  const width = Math.min(layout.width, box.parentElement.clientWidth);
  if (width === layout.width) return layout;
  const margin = { ...layout.margin, l: Math.min(layout.margin.l ?? 70, 78), r: 18 };
  const small = { ...layout, width, margin };
  for (const name of Object.keys(small)) {
    if (name.startsWith("coloraxis")) small[name] = { ...small[name], showscale: false }; // no place beside the legend
  }
  return small;
};

let fluid = [];
const draw = (root) => {
  fluid = fluid.filter(([box]) => box.isConnected);
  for (const source of root.querySelectorAll("script[data-for]")) {
    const { data, layout } = JSON.parse(source.textContent);
    const box = document.getElementById(source.dataset.for);
    const bends = box.classList.contains("fluid");
    box.style.width = bends ? "auto" : `${box.dataset.width}px`;
    box.style.height = `${box.dataset.height}px`;
    if (bends) fluid.push([box, structuredClone(layout)]); // Plotly writes into what it is given
    const options = { displaylogo: false, modeBarButtonsToRemove: ["select2d", "lasso2d"] };
    box.drawn = Plotly.newPlot(box, data, bends ? narrow(box, layout) : layout, options);
  }
};
let drawnAt = window.innerWidth;
window.addEventListener("resize", () => {
  if (window.innerWidth === drawnAt) return; // phones call it a resize when a bar of theirs comes and goes
  drawnAt = window.innerWidth;
  for (const [box, layout] of fluid) {
    if (box.parentElement.clientWidth > 0) Plotly.relayout(box, narrow(box, structuredClone(layout))); // else it is not shown now
  }
});

// What is wider than its place fades out at its right, with a word about it, until it has been scrolled to the end.
const watch = (scroll) => {
  const hint = document.createElement("p");
  hint.className = "hint";
  hint.textContent = "More to the right: swipe or scroll sideways →";
  hint.hidden = true;
  if (scroll.tagName !== "NAV") scroll.before(hint);
  const look = () => {
    hint.hidden = scroll.scrollWidth <= scroll.clientWidth + 1;
    scroll.classList.toggle("more", scroll.scrollLeft + scroll.clientWidth < scroll.scrollWidth - 1);
  };
  scroll.addEventListener("scroll", look, { passive: true });
  new ResizeObserver(look).observe(scroll);
  look();
};

const list = (table) => {
  const body = table.tBodies[0];
  const heads = [...table.tHead.rows[0].cells];
  const value = (row, i) => row.cells[i].dataset.v;

  heads.forEach((head, i) =>
    head.firstChild.addEventListener("click", () => {
      const sign = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
      heads.forEach((one) => one.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", sign === 1 ? "ascending" : "descending");
      const order = (a, b) => {
        const [x, y] = [value(a, i), value(b, i)];
        if (x === "" || y === "") return (x === "") - (y === ""); // empty cells stay last, either way
        const [p, q] = [Number(x), Number(y)];
        return sign * (Number.isNaN(p) || Number.isNaN(q) ? x.localeCompare(y) : p - q);
      };
      body.append(...[...body.rows].sort(order));
    })
  );

  const filter = document.getElementById("filter");
  filter.addEventListener("input", () => {
    const wanted = filter.value.trim().toLowerCase();
    let shown = 0;
    for (const row of body.rows) {
      row.hidden = !row.textContent.toLowerCase().includes(wanted);
      shown += !row.hidden;
    }
    document.getElementById("shown").textContent = `${shown} of ${body.rows.length} runs`;
  });

  document.getElementById("save").addEventListener("click", () => {
    const quoted = (text) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
    const lines = [heads.map((head) => head.textContent), ...[...body.rows].map((row) => heads.map((_, i) => value(row, i)))];
    const text = lines.map((line) => line.map(quoted).join(",")).join("\r\n") + "\r\n";
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
    link.download = `${table.dataset.name.replace(/[^\w.-]+/g, "_")}.csv`;
    link.click();
    URL.revokeObjectURL(link.href);
  });
};

// Everything in a part of the page; a page that changes calls it again for what is new.
const show = (root) => {
  draw(root);
  root.querySelectorAll(".scroll, nav").forEach(watch);
  root.querySelectorAll("#table").forEach(list);
};
show(document);
