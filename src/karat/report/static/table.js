// A table that sorts by its heads and saves what it shows.
// column: {title, text(row), sort?(row), cell?(row), numeric?, narrow?: hide on phones, raw?(row) for CSV}
"use strict";
KARAT.table = (() => {
  const { el, say } = KARAT.dom;

  function table({ caption, columns, rows, name, order = null, down = false, figure = null, mark = null }) {
    let shown = [...rows];
    let by = order;
    let falling = down;
    const body = el("tbody");
    const heads = columns.map((column, i) =>
      el("th", { scope: "col", class: classes(column) },
        column.sort ? el("button", { type: "button", onclick: () => sort(i, by === i ? !falling : Boolean(column.numeric)) }, column.title, el("span", { class: "arrow", "aria-hidden": "true" })) : column.title,
        column.head ? column.head() : null));

    function classes(column) {
      return [column.numeric && "number", column.narrow && "narrow", column.wide && "grow"].filter(Boolean).join(" ") || null;
    }

    function sort(i, fall) {
      by = i;
      falling = fall;
      draw();
      say(`Sorted by ${columns[i].title}, ${fall ? "descending" : "ascending"}.`);
    }

    function draw() {
      if (by !== null) {
        const key = columns[by].sort;
        const sign = falling ? -1 : 1;
        // What has no value comes last, whichever way the column runs.
        shown = [...rows].sort((a, b) => {
          const [x, y] = [key(a), key(b)];
          if (x === null || y === null) return (x === null) - (y === null);
          return sign * (typeof x === "string" ? x.localeCompare(y) : x - y);
        });
      }
      heads.forEach((head, i) => {
        if (i === by) head.setAttribute("aria-sort", falling ? "descending" : "ascending");
        else head.removeAttribute("aria-sort");
      });
      body.replaceChildren(...shown.map((row) =>
        el("tr", { class: mark ? mark(row) : null }, columns.map((column) => {
          const content = column.cell ? column.cell(row) : column.text(row);
          const first = column === columns.find((c) => c.key);
          return el(first ? "th" : "td", { scope: first ? "row" : null, class: classes(column), dir: column.numeric ? null : "auto" }, content);
        }))));
    }

    const plain = () => {
      const kept = columns.filter((column) => !column.picture);
      return {
        caption, numeric: kept.map((c) => Boolean(c.numeric)), heads: kept.flatMap((c) => c.title),
        rows: shown.map((row) => kept.map((c) => (c.raw || c.text)(row))),
      };
    };

    draw();
    const grid = el("table", null, el("caption", { class: "sr" }, caption), el("thead", null, el("tr", null, heads)), body);
    return {
      node: el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption }, grid),
      menu: KARAT.save.menu(name, plain, figure),
      plain,
    };
  }

  return table;
})();
