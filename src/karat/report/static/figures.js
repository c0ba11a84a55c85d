// The page's own figures, from its tables: each is numbers that plot.js draws.
"use strict";
KARAT.figures = (() => {
  const { grey } = KARAT.chart;
  const bounds = (board) => [["noise", board.floor], ["oracle", board.reference]].filter(([, v]) => v !== null);

  /** Every explainer with its interval, the floor and the reference as lines. */
  function forest(board) {
    const rows = board.rows.filter((row) => row.mean !== null);
    const column = (key) => rows.map((row) => row[key]);
    return {
      title: `${board.metric} by explainer`, kind: "intervals", x: "explainer", y: `${board.metric} (mean, 95 % interval over ${board.samples} samples)`,
      series: [{ name: board.metric, x: column("explainer"), y: column("mean"), low: column("low"), high: column("high") }], lines: bounds(board),
    };
  }

  /** Explainers of a slice, best on average first, controls last. */
  function order(slice) {
    const mean = (i) => slice.mean.reduce((sum, row) => sum + (row[i] ?? 0), 0);
    return slice.explainers.map((name, i) => ({ name, i })).sort((a, b) => grey(a.name) - grey(b.name) || mean(b.i) - mean(a.i));
  }

  /** Means over the values of a slice: joined where the values have an order, else side by side. */
  function sliced(slice) {
    const shown = order(slice).filter(({ i }) => slice.mean.some((row) => row[i] !== null));
    const values = slice.numeric ? slice.values.map(Number) : slice.values;
    const pick = (rows, i) => rows.map((row) => row[i]);
    return {
      title: `${slice.metric} by ${slice.key}`, kind: slice.numeric ? "lines" : "points", x: slice.key, y: slice.metric, lines: [],
      series: shown.map(({ name, i }) => ({ name, x: values, y: pick(slice.mean, i), low: pick(slice.low, i), high: pick(slice.high, i) })),
    };
  }

  /** Forward passes against the mean; explainers that nothing cheaper beats are joined. */
  function cost(board) {
    const able = board.rows.filter((row) => !row.control && row.mean !== null);
    // Seconds where every explainer had jobs of its own, else passes; nothing where all cost the same.
    const key = able.every((row) => row.seconds !== null) ? "seconds" : "passes";
    const rows = able.filter((row) => row[key] !== null);
    if (new Set(rows.map((row) => row[key])).size < 2) return null;
    const better = board.better || 1;
    const front = rows.filter((a) => !rows.some((b) => b !== a && b[key] <= a[key] && better * (b.mean - a.mean) > 0)).sort((a, b) => a[key] - b[key] || better * (b.mean - a.mean));
    return {
      title: "What a score costs", kind: "points", x: key === "seconds" ? "seconds a sample" : "forward passes a sample", y: board.metric, lines: bounds(board), logarithmic: true,
      note: board.better ? "The gold line joins explainers that no cheaper one beats." : "",
      series: rows.map((row) => ({ name: row.explainer, x: [row[key]], y: [row.mean], low: [row.low], high: [row.high] })),
      joined: board.better && front.length > 1 ? front.map((row) => [row[key], row.mean]) : null,
    };
  }

  /** Ranks of the explainers from score to score. */
  function ranks(boards) {
    const names = [...new Set(boards.flatMap((b) => b.rows.filter((r) => r.rank[0] !== null).map((r) => r.explainer)))];
    const place = (board, name) => board.rows.find((r) => r.explainer === name)?.rank[0] ?? null;
    return {
      title: "Ranks from score to score", kind: "slopes", x: "score", y: "", lines: [], note: "Lines that cross: scores that do not agree on the order.",
      series: names.map((name) => ({ name, x: boards.map((b) => b.metric), y: boards.map((b) => place(b, name)) })),
    };
  }

  return { forest, sliced, cost, ranks, order };
})();
