"use strict";
// Draws the figures whose JSON stands in the page, and makes the table of runs sortable, filterable and savable.
for (const source of document.querySelectorAll("script[data-for]")) {
  const { data, layout } = JSON.parse(source.textContent);
  Plotly.newPlot(source.dataset.for, data, layout, { displaylogo: false, modeBarButtonsToRemove: ["select2d", "lasso2d"] });
}

const table = document.getElementById("table");
if (table) {
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
}
