// Grid: a heat map, series as rows and x as columns. Values of both signs diverge around zero.
"use strict";
KARAT.plots.grid = (() => {
  const { svg } = KARAT.dom;
  const { width, text, soft, frame, label, told, groups, known, extent } = KARAT.chart;
  function grid(figure, wide) {
    const columns = groups(figure.series);
    const rows = figure.series;
    const values = known(rows.flatMap((r) => r.y));
    const shown = KARAT.format.alike(values);
    const both = values.some((v) => v < 0) && values.some((v) => v > 0);
    const size = Math.max(...values.map(Math.abs), 1e-12);
    const [low, high] = both ? [-size, size] : extent(values, 0);
    const table = both ? KARAT.colour.signed[0] : KARAT.colour.plain[0];
    const level = (v) => Math.round(255 * Math.min(1, Math.max(0, (v - low) / (high - low))));
    const left = Math.min(Math.max(...rows.map((r) => width(r.name))), wide * 0.34) + 12;
    const longest = Math.min(130, wide * 0.25, Math.max(...columns.map((c) => width(c))));
    const upright = Math.min(84, (wide - left - 12) / columns.length);
    const turned = columns.some((c) => width(c) > upright - 6);
    // Turned names lean to the right: the last must end within the picture.
    const cell = turned ? Math.min(84, (wide - left - longest * 0.84) / (columns.length - 0.5)) : upright;
    const deep = Math.min(34, Math.max(20, cell));
    const top = 18 + (turned ? longest * 0.62 + 10 : 14);
    const base = top + rows.length * deep;
    const node = frame(wide, base + 56, figure.title);
    if (figure.x) node.append(label(left - 10, 12, figure.x, left - 12, { "text-anchor": "end", "font-size": 11, ...soft }));
    columns.forEach((name, k) => {
      const x = left + (k + 0.5) * cell;
      const place = turned ? { "text-anchor": "start", transform: `rotate(-35 ${x} ${top - 8})` } : { "text-anchor": "middle" };
      node.append(label(x, top - 8, name, turned ? longest : cell - 4, place));
    });
    const written = cell >= Math.max(...values.map((v) => width(shown(v), 0.92)), 0) + 6;
    rows.forEach((row, r) => {
      const y = top + r * deep;
      node.append(label(left - 10, y + deep / 2 + 4, row.name, left - 12, { "text-anchor": "end" }));
      columns.forEach((name, k) => {
        const v = row.y[row.x.indexOf(name)] ?? null;
        const box = { x: left + k * cell + 0.75, y: y + 0.75, width: cell - 1.5, height: deep - 1.5, rx: 2 };
        if (v === null) {
          node.append(svg("rect", { ...box, fill: "currentColor", "fill-opacity": 0.04 }), text(box.x + box.width / 2, y + deep / 2 + 4, "–", { "text-anchor": "middle", ...soft }));
          return;
        }
        const ink = KARAT.colour.css(table, level(v));
        node.append(svg("g", null, told(row.name, name, v, row.low?.[row.x.indexOf(name)], row.high?.[row.x.indexOf(name)]), svg("rect", { ...box, fill: ink }),
          written ? text(box.x + box.width / 2, y + deep / 2 + 4, shown(v), { "text-anchor": "middle", "font-size": 11, fill: KARAT.colour.on(table, level(v)) }) : null));
      });
    });
    ramp(node, table, [low, high].map(shown), left, base + 18, Math.min(220, wide - left - 60));
    node.append(label(left + Math.min(220, wide - left - 60) + 14, base + 28, figure.y, Math.max(40, wide - left - 250), soft));
    return node;
  }

  /** The scale of the colours, from low to high. */
  function ramp(node, table, ends, left, y, wide) {
    const steps = 48;
    for (let k = 0; k < steps; k++) node.append(svg("rect", { x: left + (k * wide) / steps, y, width: wide / steps + 0.5, height: 9, fill: KARAT.colour.css(table, Math.round((255 * k) / (steps - 1))) }));
    node.append(text(left, y + 23, ends[0], { "font-size": 11, ...soft }), text(left + wide, y + 23, ends[1], { "font-size": 11, "text-anchor": "end", ...soft }));
  }

  return grid;
})();
