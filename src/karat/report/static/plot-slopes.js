// Slopes: ranks from column to column, 1 on top. Lines that cross are columns that disagree on the order.
"use strict";
KARAT.plots.slopes = (() => {
  const { svg } = KARAT.dom;
  const { width, scale, text, soft, frame, label, marker, looks, apart, told, groups, known } = KARAT.chart;

  function slopes(figure, wide) {
    const columns = groups(figure.series);
    const names = figure.series.map((s) => s.name);
    const styles = looks(names);
    const side = Math.min(Math.max(...names.map((n) => width(n))) + 18, wide * 0.3);
    const both = columns.length > 1;
    const [left, right] = [side, both ? wide - side : wide - 20];
    const ranks = known(figure.series.flatMap((s) => s.y));
    const [best, worst] = [Math.min(...ranks, 1), Math.max(...ranks, 2)];
    const pitch = Math.max(18, Math.min(28, 420 / (worst - best + 1)));
    const room = both ? (right - left) / (columns.length - 1) : right - left;
    const turned = columns.some((c) => width(c, 1.08) > room - 10);
    // Turned names lean to the right: the last must end within the margin.
    const longest = Math.min(Math.max(...columns.map((c) => width(c, 1.08))), 120, (wide - right) / 0.84);
    const top = turned ? 34 + longest * 0.6 : 42;
    const base = top + Math.max((worst - best) * pitch, (names.length - 1) * 15);
    const x = (k) => (both ? left + k * room : (left + right) / 2);
    const y = scale(best, worst, top, base);
    const node = frame(wide, base + (figure.y ? 40 : 18), figure.title);
    columns.forEach((name, k) => {
      const place = turned ? { "text-anchor": "start", transform: `rotate(-35 ${x(k)} ${top - 16})` } : { "text-anchor": "middle" };
      node.append(label(x(k), top - (turned ? 16 : 20), name, (turned ? longest : room - 8) / 1.08, { ...place, "font-weight": 600 }));
    });
    const taken = columns.map(() => new Map());
    const points = figure.series.map((series) => columns.map((name, k) => {
      const v = series.y[series.x.indexOf(name)] ?? null;
      if (v === null) return null;
      // Equal ranks are drawn next to each other, so that no line hides another.
      const before = taken[k].get(v) ?? 0;
      taken[k].set(v, before + 1);
      return [x(k), y(v) + before * 7, v];
    }));
    const [starts, ends] = [[], []];
    figure.series.forEach((series, i) => {
      const d = points[i].map((p, k) => (p ? `${k && points[i][k - 1] ? "L" : "M"}${p[0]} ${p[1]}` : "")).join("");
      node.append(svg("g", { "data-series": i }, svg("path", { d, fill: "none", stroke: styles[i].colour, "stroke-width": 2, "stroke-dasharray": styles[i].dash }),
        points[i].map((p, k) => p && svg("g", null, told(series.name, columns[k], p[2]), marker(p[0], p[1], styles[i].shape, styles[i].colour, 4.2)))));
      // A name stands in the margins only: inside, lines would run through it.
      const [first, last] = [points[i][0], points[i][columns.length - 1]];
      if (first) starts.push({ i, at: first[1] });
      if (both && last) ends.push({ i, at: last[1] });
      const some = points[i].filter(Boolean);
      if (!first && !last && some.length) (both ? ends : starts).push({ i, at: some[some.length - 1][1], inner: some[some.length - 1] });
    });
    for (const [labels, at, anchor] of [[starts, left - 12, "end"], [ends, right + 12, "start"]]) {
      for (const one of apart(labels, 14, top - 4, base + 4)) {
        if (one.inner) node.append(svg("path", { d: `M${one.inner[0]} ${one.inner[1]}L${right + 8} ${one.at}`, stroke: styles[one.i].colour, "stroke-width": 1, "stroke-dasharray": "2 3", fill: "none" }));
        node.append(svg("g", { "data-series": one.i }, label(at, one.at + 4, names[one.i], side - 14, { "text-anchor": anchor })));
      }
    }
    if (figure.y) node.append(text(wide / 2, base + 32, figure.y, { "text-anchor": "middle", ...soft }));
    return node;
  }

  return slopes;
})();
