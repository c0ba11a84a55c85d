// A figure as numbers ({title, kind, x, y, series, note, lines}) becomes a picture with its name and its files.
"use strict";
KARAT.plot = (() => {
  const { el, prose } = KARAT.dom;
  const WIDEST = 860;

  /** Series without a single number are left out: they would only be names. */
  function draw(figure, wide) {
    const series = figure.series.filter((one) => one.y.some((v) => typeof v === "number"));
    if (!series.length) return el("p", { class: "note" }, "No values to draw.");
    return highlight(KARAT.plots[figure.kind]({ ...figure, series }, wide));
  }

  const empty = (figure) => !figure.series.some((one) => one.y.some((v) => typeof v === "number"));

  /** What one may put under the figure in a paper. */
  function caption(figure) {
    const stop = (text) => (/[.!?]$/.test(text) ? text : `${text}.`);
    const bounds = figure.series.some((s) => s.low && s.high);
    const axes = figure.kind === "grid" || !figure.y ? "" : ` ${figure.y[0].toUpperCase()}${figure.y.slice(1)}${figure.x ? ` by ${figure.x}` : ""}${bounds && figure.kind !== "slopes" ? "; bars and bands are intervals" : ""}.`;
    const lines = figure.lines?.length ? ` Lines: ${figure.lines.map(([name, v]) => `${name} ${KARAT.format.figure(v)}`).join(", ")}.` : "";
    const runs = KARAT.core.about.runs.map((run) => run.name).join(", ");
    return `${stop(figure.title)}${axes}${lines}${figure.note ? ` ${stop(figure.note)}` : ""} ${runs}; Karat ${KARAT.core.about.version}.`;
  }

  /** Pointing at a series (or its name) fades the others. */
  function highlight(node) {
    node.addEventListener("pointerover", (event) => {
      const chosen = event.target.closest("[data-series]")?.dataset.series;
      for (const part of node.querySelectorAll("[data-series]")) part.style.opacity = chosen === undefined || part.dataset.series === chosen ? "" : "0.15";
    });
    node.addEventListener("pointerleave", () => node.querySelectorAll("[data-series]").forEach((part) => { part.style.opacity = ""; }));
    return node;
  }

  /** Half a page is enough for what need not name much. */
  function half(figure) {
    const places = new Set(figure.series.flatMap((s) => s.x)).size;
    if (figure.kind === "lines") return figure.series.length <= 6;
    if (figure.kind === "points") return figure.series.length <= 4;
    return figure.kind === "bars" && figure.series.length * places <= 14;
  }

  /** Which figures stand in pairs: an odd one out gets the whole width. */
  function paired(figures) {
    const small = figures.map(half);
    for (let i = 0; i < small.length; i++) {
      if (!small[i]) continue;
      if (small[i + 1]) i++;
      else small[i] = false;
    }
    return small;
  }

  /** The numbers of a figure as a table: what a screen reader, or a spreadsheet, gets. */
  function numbers(figure) {
    const bounds = figure.series.some((s) => s.low && s.high);
    const heads = [figure.x || "x", "series", figure.y || "y", ...(bounds ? ["low", "high"] : [])];
    const rows = figure.series.flatMap((s) => s.x.map((x, k) => [x, s.name, s.y[k] ?? "", ...(bounds ? [s.low?.[k] ?? "", s.high?.[k] ?? ""] : [])]));
    return { caption: figure.title, heads, numeric: heads.map((_, i) => rows.every((row) => row[i] === "" || typeof row[i] === "number")), rows };
  }

  /** A block of the page: name, note, picture, and a menu that saves both picture and numbers. */
  function block(figure, file, level = "h3", wide = WIDEST) {
    const named = { ...figure, lines: figure.lines || [] };
    const place = el("div", { class: "drawn" });
    const node = el("figure", { class: "plot whole" },
      el("div", { class: "bar" }, el(level, { dir: "auto" }, named.title), KARAT.save.menu(file, () => numbers(named), () => draw(named, WIDEST), () => caption(named))),
      named.note ? el("p", { class: "note", dir: "auto" }, prose(named.note)) : null, place);
    place.append(draw(named, Math.max(320, Math.min(WIDEST, wide))));
    return node;
  }

  return { draw, block, paired, numbers, empty, caption, WIDEST };
})();
