// Points: a scatter. Lone points carry their names; names move out of each other's way. Counts that span a thousandfold
// stand on a logarithmic axis. `figure.joined` (only the page's own figures have it) are points to draw a line through.
"use strict";
KARAT.plots.points = (() => {
  const { svg } = KARAT.dom;
  const { GOLD, width, fit, ticks, tick, scale, extent, text, soft, line, frame, marker, looks, legend, apart, yAxis, axisRoom, told, known } = KARAT.chart;
  const { across, below } = KARAT.plots.lines;

  /** A logarithmic axis, zero included where it occurs: {at, marks}. */
  function decades(values, left, right) {
    const shift = Math.min(...values) > 0 ? 0 : 1;
    const warp = (v) => Math.log10(v + shift);
    const [low, high] = [Math.min(...values.map(warp)), Math.max(...values.map(warp))];
    const x = low === high ? () => (left + right) / 2 : scale(low, high, left, right);
    const marks = [...(shift ? [0] : []), ...Array.from({ length: 16 }, (_, k) => 10 ** (k - 6))].filter((v) => warp(v) >= low - 1e-9 && warp(v) <= high + 1e-9 && (shift === 0 || v === 0 || v >= 1));
    // One value that is no power of ten still gets its mark.
    const shown = marks.length ? marks : [Math.min(...values)];
    return { at: (v) => x(warp(v)), marks: shown.map((v) => [x(warp(v)), tick(v)]), numeric: true };
  }

  function points(figure, wide) {
    const names = figure.series.map((s) => s.name);
    const styles = looks(names);
    const count = figure.series.reduce((sum, s) => sum + s.x.length, 0);
    const named = names.length > 1 && count <= 40 && figure.series.every((s) => s.x.length <= 1);
    const values = figure.series.flatMap((s) => [...s.y, ...(s.low || []), ...(s.high || [])]).concat(figure.lines.map((l) => l[1]));
    const [low, high] = extent(values, 0.08);
    const marks = ticks(low, high);
    const left = axisRoom(marks) + 6;
    const right = wide - (figure.lines.length ? Math.max(...figure.lines.map(([n]) => width(n))) + 14 : 16);
    const key = named ? { node: null, height: 0 } : legend(names, styles, left, wide - 8);
    const top = key.height + 32;
    const base = top + Math.max(220, Math.min(340, wide * 0.5));
    const y = scale(low, high, base, top);
    const xs = figure.series.flatMap((s) => s.x);
    const numeric = known(xs);
    const [least, greatest] = [Math.min(...numeric), Math.max(...numeric)];
    const long = numeric.length === xs.length && least >= 0 && greatest >= 1000 * Math.max(least, least > 0 ? 0 : 1);
    const x = long || figure.logarithmic ? decades(xs, left + 12, right - 12) : across(figure.series, left + 12, right - 12);
    const turned = x.room && Math.max(...x.marks.map(([, t]) => width(t))) > x.room - 6;
    const node = frame(wide, base + (turned ? 110 : 54), figure.title);
    if (key.node) node.append(key.node);
    yAxis(node, y, marks, left, right, top, figure.y, wide - left);
    below(node, x.marks, base, figure.x, left, right, x.room);
    for (const one of apart(figure.lines.map(([name, v]) => ({ name, v, at: y(v) })), 13, top, base)) {
      node.append(line(left, y(one.v), right, y(one.v), { stroke: one.name === "oracle" ? GOLD : "currentColor", "stroke-dasharray": "3 3", "stroke-opacity": 0.8 }), text(right + 7, one.at + 4, one.name, { "font-size": 11, ...soft }));
    }
    if (figure.joined) node.append(svg("path", { d: `M${figure.joined.map(([a, b]) => `${x.at(a)} ${y(b)}`).join("L")}`, fill: "none", stroke: GOLD, "stroke-width": 1.5 }));
    const small = count > 200 ? 2.2 : count > 60 ? 3.2 : 4.5;
    // Values side by side have no place of their own within their group: series stand next to each other there.
    const shift = (i) => (x.numeric || names.length < 2 ? 0 : ((i + 0.5) / names.length - 0.5) * Math.min(x.room * 0.6, names.length * 12));
    figure.series.forEach((series, i) => node.append(svg("g", { "data-series": i }, series.x.map((value, k) => {
      if (typeof series.y[k] !== "number" || value === null) return null;
      const [px, py] = [x.at(value) + shift(i), y(series.y[k])];
      const bounds = known([series.low?.[k], series.high?.[k]]).length === 2 ? line(px, y(series.low[k]), px, y(series.high[k]), { stroke: styles[i].colour, "stroke-width": 1.5, "stroke-opacity": 0.65 }) : null;
      return svg("g", count > 200 ? { opacity: 0.55 } : null, told(series.name, value, series.y[k], series.low?.[k], series.high?.[k]), bounds, marker(px, py, styles[i].shape, styles[i].colour, small));
    }))));
    if (named) node.append(...labels(figure, styles, x, y, top, base, wide));
    return node;
  }

  const hits = (box) => (other) => box.left < other.right && box.right > other.left && box.top < other.bottom && box.bottom > other.top;

  /** Names beside their points: points above one another share a column of names in their order, moved apart. */
  function labels(figure, styles, x, y, top, base, wide) {
    const all = figure.series.map((s, i) => ({ i, name: fit(s.name, wide * 0.45), px: x.at(s.x[0]), py: y(s.y[0]) })).filter((p) => Number.isFinite(p.py)).sort((a, b) => a.px - b.px);
    const marks = all.map((p) => ({ left: p.px - 6, right: p.px + 6, top: p.py - 6, bottom: p.py + 6 }));
    const columns = [];
    for (const p of all) {
      const near = columns.find((c) => p.px - c[0].px < 20);
      if (near) near.push(p);
      else columns.push([p]);
    }
    const taken = [];
    const drawn = [];
    for (const column of columns.sort((a, b) => b.length - a.length)) {
      const best = places(column, top, base).map((boxes) => ({ boxes, cost: price(boxes, taken, marks, wide) })).reduce((a, b) => (b.cost < a.cost ? b : a));
      for (const box of best.boxes) {
        taken.push(box);
        const { p, side, at } = box;
        const from = side > 0 ? box.left : box.right;
        if (Math.abs(at - p.py) > 8) drawn.push(line(p.px + 5 * side, p.py, from - 2 * side, at, { stroke: styles[p.i].colour, "stroke-opacity": 0.5 }));
        drawn.push(text(from, at + 4, p.name, { "text-anchor": side > 0 ? "start" : "end", class: "over" }));
      }
    }
    return drawn;
  }

  /** Ways to set the names of a column: right or left of it, as they stand or moved up or down. */
  function places(column, top, base) {
    const [first, last] = [Math.min(...column.map((p) => p.px)), Math.max(...column.map((p) => p.px))];
    const moves = [0, -12, 12, -24, 24, -36, 36];
    return moves.flatMap((move) => [1, -1].map((side) => apart(column.map((p) => ({ p, side, at: p.py + move })), 14, top - 14, base).map((one) => {
      const from = side > 0 ? last + 12 : first - 12;
      const long = width(one.p.name);
      return { ...one, move, left: side > 0 ? from : from - long, right: side > 0 ? from + long : from, top: one.at - 7, bottom: one.at + 7 };
    })));
  }

  /** What is wrong with a way: names outside the picture, over other names, over points; then how far they moved. */
  const price = (boxes, taken, marks, wide) => boxes.reduce((sum, box) => sum + (box.left < 2 || box.right > wide - 2 ? 100 : 0) + 20 * taken.filter(hits(box)).length + 5 * marks.filter(hits(box)).length + Math.abs(box.move) / 40 + (box.side < 0 ? 0.1 : 0), 0);

  return points;
})();
