// Intervals: a forest plot. One row per x, the estimate between its bounds; several series stand below each other.
"use strict";
KARAT.plots.intervals = (() => {
  const { svg } = KARAT.dom;
  const { GOLD, width, ticks, tick, scale, extent, text, soft, line, frame, label, marker, grey, looks, legend, apart, told: hint, groups } = KARAT.chart;
  function intervals(figure, wide) {
    const rows = groups(figure.series);
    const alone = figure.series.length === 1;
    const styles = looks(figure.series.map((s) => s.name));
    const values = figure.series.flatMap((s) => [...s.y, ...(s.low || []), ...(s.high || [])]).concat(figure.lines.map((l) => l[1]));
    const [low, high] = extent(values);
    const shown = KARAT.format.alike(figure.series.flatMap((s) => [...s.y, ...(s.low || []), ...(s.high || [])]));
    const beside = alone && wide >= 600;
    const left = Math.min(Math.max(...rows.map((n) => width(n))), wide * 0.4) + 16;
    const told = (v, a, b) => (typeof a === "number" && typeof b === "number" ? `${shown(v)}  (${shown(a)}, ${shown(b)})` : shown(v));
    const written = beside ? Math.max(...figure.series[0].y.map((v, k) => width(told(v, figure.series[0].low?.[k], figure.series[0].high?.[k]), 0.95))) : 0;
    const right = wide - (beside ? written + 24 : 18);
    const key = legend(figure.series.map((s) => s.name), styles, 4, wide - 8);
    const step = alone ? 24 : Math.max(26, figure.series.length * 11 + 10);
    const top = key.height + (figure.lines.length ? 28 : 12);
    const base = top + rows.length * step;
    const x = scale(low, high, left, right);
    const node = frame(wide, base + 48, figure.title);
    node.append(key.node);
    for (const t of ticks(low, high, wide < 520 ? 4 : 6)) node.append(line(x(t), top - 4, x(t), base, { "stroke-opacity": t === 0 ? 0.4 : 0.11 }), text(x(t), base + 18, tick(t), { "text-anchor": "middle", ...soft }));
    const names = figure.lines.map(([name, v]) => ({ name, v, at: x(v) }));
    for (const one of apart(names, Math.max(30, ...names.map((n) => width(n.name) + 8)), left, right)) {
      node.append(line(x(one.v), top - 6, x(one.v), base, { stroke: one.name === "oracle" ? GOLD : "currentColor", "stroke-dasharray": "3 3", "stroke-opacity": 0.85 }), text(one.at, top - 11, one.name, { "text-anchor": "middle", "font-size": 11, ...soft }));
    }
    rows.forEach((name, r) => {
      const middle = top + (r + 0.5) * step;
      if (!alone && r % 2) node.append(svg("rect", { x: 0, y: middle - step / 2, width: wide, height: step, fill: "currentColor", "fill-opacity": 0.035 }));
      node.append(label(left - 14, middle + 4, name, left - 16, { "text-anchor": "end", "fill-opacity": grey(name) ? 0.72 : 1 }));
      figure.series.forEach((series, i) => {
        const k = series.x.indexOf(name);
        const v = k < 0 ? null : series.y[k];
        if (typeof v !== "number") return;
        const [a, b] = [series.low?.[k], series.high?.[k]];
        const known = typeof a === "number" && typeof b === "number";
        const y = alone ? middle : middle + (i - (figure.series.length - 1) / 2) * 11;
        const ink = alone ? (grey(name) ? "var(--grey)" : "var(--s0)") : styles[i].colour;
        node.append(svg("g", { "data-series": i }, hint(series.name, name, v, a, b), known ? line(x(a), y, x(b), y, { stroke: ink, "stroke-width": 2 }) : null, marker(x(v), y, alone ? (grey(name) ? 1 : 0) : styles[i].shape, ink, alone ? 4.5 : 4)));
        if (beside) node.append(text(right + 16, middle + 4, told(v, a, b), { "font-size": 11, ...soft }));
      });
    });
    node.append(label((left + right) / 2, base + 40, figure.y, wide - 20, { "text-anchor": "middle", ...soft }));
    return node;
  }

  return intervals;
})();
