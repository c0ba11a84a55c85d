// Filters of a board: tables by protocol and model, rows by explainer.
"use strict";
(() => {
  const field = (id) => document.getElementById(id);
  const tables = [...document.querySelectorAll(".board-table")];
  function apply() {
    const [protocol, model, part] = ["protocol", "model", "explainer"].map((id) => field(id).value.trim());
    let left = 0;
    for (const table of tables) {
      const rows = [...table.querySelectorAll("tbody tr")];
      for (const row of rows) row.hidden = Boolean(part) && !row.dataset.explainer.toLowerCase().includes(part.toLowerCase());
      table.hidden = (protocol && table.dataset.protocol !== protocol) || (model && table.dataset.model !== model) || rows.every((row) => row.hidden);
      if (!table.hidden) left += 1;
    }
    field("count").textContent = `${left} of ${tables.length} tables`;
  }
  for (const id of ["protocol", "model", "explainer"]) field(id).addEventListener("input", apply);
  apply();
})();
