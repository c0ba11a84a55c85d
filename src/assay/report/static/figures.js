// The figures of the page: forest plot of a board, lines over a slice, cost against score.
"use strict";
ASSAY.figures = (() => {
  const { svg } = ASSAY.dom;
  const { ticks, scale, extent, text, line, frame, marker } = ASSAY.chart;
  const { score, cost } = ASSAY.format;
  const GOLD = "#b07d0b";
  const tick = (t) => String(t).replace("-", "−");
  const clip = (name, n = 34) => (Array.from(name).length > n ? `${Array.from(name).slice(0, n - 1).join("")}…` : name);
  const colour = (i) => ASSAY.colour.series[i % ASSAY.colour.series.length];

  /** Every explainer with its interval, the floor and the reference as lines. */
  function forest(board) {
    const rows = board.rows.filter((row) => row.mean !== null);
    const [left, right, top, step] = [230, 24, 46, 26];
    const [width, height] = [760, top + rows.length * step + 46];
    const [low, high] = extent(rows.flatMap((r) => [r.low, r.high, r.mean]).concat(board.floor, board.reference));
    const x = scale(low, high, left, width - right);
    const base = top + rows.length * step;
    const node = frame(width, height, `${board.metric}: means with 95 % intervals`);
    for (const t of ticks(low, high)) {
      node.append(line(x(t), top - 8, x(t), base, { "stroke-opacity": 0.1 }), text(x(t), base + 18, tick(t), { "text-anchor": "middle", "fill-opacity": 0.75 }));
    }
    for (const [value, name, stroke] of [[board.floor, "noise", "currentColor"], [board.reference, "oracle", GOLD]]) {
      if (value === null) continue;
      node.append(line(x(value), top - 8, x(value), base, { stroke, "stroke-dasharray": "3 3" }), text(x(value), top - 14, name, { "text-anchor": "middle", "font-size": 11 }));
    }
    rows.forEach((row, i) => {
      const y = top + (i + 0.5) * step;
      const ink = row.control ? "#777777" : colour(0);
      node.append(text(left - 14, y + 4, clip(row.explainer), { "text-anchor": "end", "fill-opacity": row.control ? 0.7 : 1 }));
      if (row.low !== null) node.append(line(x(row.low), y, x(row.high), y, { stroke: ink, "stroke-width": 2 }));
      node.append(marker(x(row.mean), y, row.control ? 1 : 0, ink));
    });
    node.append(text((left + width - right) / 2, base + 38, `${board.metric} (mean, 95 % interval over ${board.samples} samples)`, { "text-anchor": "middle" }));
    return node;
  }

  /** Explainers of a slice, best on average first, controls last. */
  function order(slice) {
    const mean = (i) => slice.mean.reduce((sum, row) => sum + (row[i] ?? 0), 0);
    const grey = (name) => name.startsWith("control/");
    return slice.explainers.map((name, i) => ({ name, i })).sort((a, b) => grey(a.name) - grey(b.name) || mean(b.i) - mean(a.i));
  }

  /** Means over the values of a slice, a line per explainer; dots alone where the values have no order. */
  function lines(slice, metric) {
    const shown = order(slice).filter(({ i }) => slice.mean.some((row) => row[i] !== null));
    const [left, right, top, bottom, width] = [62, 250, 34, 58, 860];
    const height = Math.max(340, 40 + shown.length * 20);
    const [low, high] = extent(slice.low.flat().concat(slice.high.flat(), slice.mean.flat()));
    const y = scale(low, high, height - bottom, top);
    const n = slice.values.length;
    const x = (k) => left + ((k + 0.5) * (width - left - right)) / n;
    const node = frame(width, height, `${metric} by ${slice.key}`);
    for (const t of ticks(low, high)) {
      node.append(line(left, y(t), width - right, y(t), { "stroke-opacity": 0.12 }), text(left - 8, y(t) + 4, tick(t), { "text-anchor": "end", "fill-opacity": 0.75 }));
    }
    const room = Math.floor((width - left - right) / n / 7);
    slice.values.forEach((value, k) => node.append(text(x(k), height - bottom + 20, clip(value, Math.max(room, 3)), { "text-anchor": "middle" })));
    node.append(text((left + width - right) / 2, height - 10, slice.key, { "text-anchor": "middle" }), text(left - 40, top - 18, metric, { "font-weight": 600 }));
    const judged = shown.some(({ name }) => !name.startsWith("control/"));
    shown.forEach(({ name, i }, k) => {
      const grey = judged && name.startsWith("control/");
      const ink = grey ? "#777777" : colour(k);
      const shift = n > 1 ? ((k + 0.5) / shown.length - 0.5) * Math.min(16, (width - left - right) / n / 3) : 0;
      const points = slice.mean.map((row, v) => (row[i] === null ? null : [x(v) + shift, y(row[i]), v]));
      if (slice.numeric) {
        const d = points.map((p, v) => (p ? `${v && points[v - 1] ? "L" : "M"}${p[0]} ${p[1]}` : "")).join("");
        node.append(svg("path", { d, fill: "none", stroke: ink, "stroke-width": 1.5, "stroke-dasharray": grey ? "4 3" : null }));
      }
      for (const p of points.filter(Boolean)) {
        if (slice.low[p[2]][i] !== null) node.append(line(p[0], y(slice.low[p[2]][i]), p[0], y(slice.high[p[2]][i]), { stroke: ink, "stroke-opacity": 0.6 }));
        node.append(marker(p[0], p[1], k, ink, 4));
      }
      node.append(marker(width - right + 18, top + 8 + k * 20, k, ink, 4), text(width - right + 30, top + 12 + k * 20, clip(name, 32)));
    });
    return node;
  }

  /** Forward passes against the mean; explainers that nothing cheaper beats are joined. */
  function pareto(board) {
    const rows = board.rows.filter((row) => !row.control && row.mean !== null && row.passes !== null);
    const [left, right, top, bottom, width, height] = [62, 70, 34, 58, 860, 380];
    const at = (row) => Math.log10(1 + row.passes);
    const [low, high] = extent(rows.map((r) => r.mean).concat(board.floor, board.reference), 0.08);
    const most = Math.max(1, ...rows.map(at));
    const x = scale(0, most * 1.08, left + 16, width - right);
    const y = scale(low, high, height - bottom, top);
    const node = frame(width, height, `${board.metric} against forward passes a sample`);
    for (const t of ticks(low, high)) {
      node.append(line(left, y(t), width - right, y(t), { "stroke-opacity": 0.12 }), text(left - 8, y(t) + 4, tick(t), { "text-anchor": "end", "fill-opacity": 0.75 }));
    }
    for (const passes of [0, 1, 10, 100, 1000, 10000, 100000]) {
      if (at({ passes }) <= most * 1.08) node.append(text(x(at({ passes })), height - bottom + 20, cost(passes), { "text-anchor": "middle", "fill-opacity": 0.75 }));
    }
    for (const [value, name, stroke] of [[board.floor, "noise", "currentColor"], [board.reference, "oracle", GOLD]]) {
      if (value !== null) node.append(line(left, y(value), width - right, y(value), { stroke, "stroke-dasharray": "3 3" }), text(width - right + 8, y(value) + 4, name, { "font-size": 11 }));
    }
    node.append(text((left + width - right) / 2, height - 10, "forward passes a sample", { "text-anchor": "middle" }), text(left - 40, top - 18, board.metric, { "font-weight": 600 }));
    const better = board.better || 1;
    const front = rows.filter((a) => !rows.some((b) => b !== a && b.passes <= a.passes && better * (b.mean - a.mean) > 0)).sort((a, b) => a.passes - b.passes || better * (b.mean - a.mean));
    if (board.better && front.length > 1) node.append(svg("path", { d: front.map((r, i) => `${i ? "L" : "M"}${x(at(r))} ${y(r.mean)}`).join(""), fill: "none", stroke: GOLD, "stroke-width": 1.5 }));
    const taken = [];
    [...rows].sort((a, b) => b.mean - a.mean).forEach((row) => {
      const [px, py] = [x(at(row)), y(row.mean)];
      const ink = board.better && front.includes(row) ? GOLD : colour(0);
      // Labels stand beside their mark, below the gold line, and move down out of each other's way.
      let ly = py + (ink === GOLD && front.length > 1 ? 16 : 4);
      while (taken.some(([tx, ty]) => Math.abs(tx - px) < 160 && Math.abs(ty - ly) < 14)) ly += 2;
      taken.push([px, ly]);
      const last = px > width - 260;
      node.append(marker(px, py, 0, ink), text(px + (last ? -10 : 10), ly, clip(row.explainer), { "text-anchor": last ? "end" : "start" }));
    });
    return node;
  }

  /** Ranks of the explainers from score to score, joined: lines that cross are scores that disagree. */
  function shifts(boards) {
    const names = [...new Set(boards.flatMap((b) => b.rows.filter((r) => r.rank[0] !== null).map((r) => r.explainer)))];
    const place = (board, name) => board.rows.find((r) => r.explainer === name)?.rank[0] ?? null;
    const [side, top, step, width] = [220, 46, 30, 860];
    const height = top + names.length * step + 10;
    const x = (k) => side + (k * (width - 2 * side)) / Math.max(1, boards.length - 1);
    const node = frame(width, height, "Rank of each explainer on each score");
    boards.forEach((board, k) => node.append(text(x(k), top - 22, clip(board.metric, 18), { "text-anchor": "middle", "font-weight": 600 })));
    const taken = boards.map(() => new Map());
    names.forEach((name, i) => {
      // Equal ranks are drawn next to each other, so that no line hides another.
      const points = boards.map((board, k) => {
        const rank = place(board, name);
        if (rank === null) return null;
        const below = taken[k].get(rank) ?? 0;
        taken[k].set(rank, below + 1);
        return [x(k), top + (rank - 1 + 0.3 * below) * step + 4, rank];
      });
      const ink = colour(i);
      const d = points.map((p, k) => (p ? `${k && points[k - 1] ? "L" : "M"}${p[0]} ${p[1]}` : "")).join("");
      node.append(svg("path", { d, fill: "none", stroke: ink, "stroke-width": 2 }));
      points.forEach((p) => p && node.append(marker(p[0], p[1], i, ink)));
      const known = points.filter(Boolean);
      const [first, last] = [known[0], known[known.length - 1]];
      node.append(text(first[0] - 14, first[1] + 4, clip(name, 29), { "text-anchor": "end" }));
      if (last !== first) node.append(text(last[0] + 14, last[1] + 4, clip(name, 29)));
    });
    return node;
  }

  return { forest, lines, pareto, shifts, order };
})();
