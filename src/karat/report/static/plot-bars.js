// Bars: one group per x, one bar per series, upright where the names fit below, lying where they do not.
"use strict";
KARAT.plots = {};
KARAT.plots.bars = (() => {
  const { svg } = KARAT.dom;
  const { GOLD, width, ticks, tick, scale, extent, text, soft, line, frame, label, grey, looks, legend, yAxis, axisRoom, told, groups } = KARAT.chart;

  /** Bars stand on zero, always. */
  function reach(figure) {
    const values = figure.series.flatMap((s) => [...s.y, ...(s.low || []), ...(s.high || [])]).concat(figure.lines.map((l) => l[1]), 0);
    const [low, high] = extent(values, 0);
    const air = 0.06 * (high - low);
    return [low < 0 ? low - air : 0, high > 0 ? high + air : 0];
  }

  function bars(figure, wide) {
    const names = groups(figure.series);
    const [low, high] = reach(figure);
    const left = axisRoom(ticks(low, high)) + 4;
    const room = (wide - left - 16) / Math.max(1, names.length);
    const upright = figure.series.length * names.length <= (wide - left) / 7 && names.every((n) => width(n) <= room - 8);
    return upright ? standing(figure, wide, names, low, high, left) : lying(figure, wide, names, low, high);
  }

  const at = (series, name) => series.x.indexOf(name);

  function whisker(series, k, place, across) {
    const [low, high] = [series.low?.[k], series.high?.[k]];
    if (typeof low !== "number" || typeof high !== "number") return null;
    const more = { stroke: "currentColor", "stroke-width": 1.3, "stroke-opacity": 0.75 };
    return across ? line(place.scale(low), place.middle, place.scale(high), place.middle, more) : line(place.middle, place.scale(low), place.middle, place.scale(high), more);
  }

  /** Lone series: bars of controls are grey, the others have one colour. */
  const inks = (figure) => {
    const styles = looks(figure.series.map((s) => s.name));
    return (i, name) => (figure.series.length === 1 ? (grey(name) ? "var(--grey)" : "var(--s0)") : styles[i].colour);
  };

  function standing(figure, wide, names, low, high, left) {
    const right = wide - 12;
    const styles = looks(figure.series.map((s) => s.name));
    const key = legend(figure.series.map((s) => s.name), styles, left, right, "bar");
    const top = key.height + 32;
    const base = top + Math.max(170, Math.min(260, wide * 0.4));
    const node = frame(wide, base + 48, figure.title);
    const y = scale(low, high, base, top);
    node.append(key.node);
    yAxis(node, y, ticks(low, high), left, right, top, figure.y);
    const room = (right - left) / names.length;
    const thick = Math.min(44, (room * 0.76) / figure.series.length);
    const ink = inks(figure);
    names.forEach((name, g) => {
      const middle = left + (g + 0.5) * room;
      node.append(text(middle, base + 18, name, { "text-anchor": "middle" }));
      figure.series.forEach((series, i) => {
        const k = at(series, name);
        const v = k < 0 ? null : series.y[k];
        if (v === null) return;
        const x = middle + (i - figure.series.length / 2) * thick;
        const [a, b] = [y(Math.max(0, v)), y(Math.min(0, v))];
        node.append(svg("g", { "data-series": i }, told(series.name, name, v, series.low?.[k], series.high?.[k]), svg("rect", { x: x + 0.75, y: a, width: Math.max(1, thick - 1.5), height: Math.max(1, b - a), rx: 1.5, fill: ink(i, name) }), whisker(series, k, { scale: y, middle: x + thick / 2 })));
      });
    });
    references(node, figure, (v) => [left, y(v), right, y(v)], (v) => [right, y(v) - 5, "end"]);
    node.append(text((left + right) / 2, base + 40, figure.x, { "text-anchor": "middle", ...soft }));
    return node;
  }

  function lying(figure, wide, names, low, high) {
    const most = Math.max(...names.map((n) => width(n)));
    const left = Math.min(most, wide * 0.42) + 14;
    const right = wide - (figure.series.length === 1 ? 56 : 16);
    const styles = looks(figure.series.map((s) => s.name));
    const key = legend(figure.series.map((s) => s.name), styles, 4, wide - 8, "bar");
    const thick = figure.series.length === 1 ? 17 : Math.max(6, Math.min(11, 44 / figure.series.length));
    const step = thick * figure.series.length + (figure.series.length === 1 ? 8 : 12);
    const top = key.height + (figure.lines.length ? 26 : 10);
    const base = top + names.length * step + 2;
    const node = frame(wide, base + 46, figure.title);
    const x = scale(low, high, left, right);
    node.append(key.node);
    for (const t of ticks(low, high, wide < 520 ? 4 : 6)) node.append(line(x(t), top - 2, x(t), base, { "stroke-opacity": t === 0 ? 0.35 : 0.11 }), text(x(t), base + 17, tick(t), { "text-anchor": "middle", ...soft }));
    const ink = inks(figure);
    const write = KARAT.format.alike(figure.series.flatMap((s) => s.y));
    references(node, figure, (v) => [x(v), top - 4, x(v), base], (v) => [x(v), top - 9, "middle"]);
    names.forEach((name, g) => {
      const start = top + g * step + (step - thick * figure.series.length) / 2;
      node.append(label(left - 10, start + (thick * figure.series.length) / 2 + 4, name, left - 12, { "text-anchor": "end" }));
      figure.series.forEach((series, i) => {
        const k = at(series, name);
        const v = k < 0 ? null : series.y[k];
        if (v === null) return;
        const [a, b] = [x(Math.min(0, v)), x(Math.max(0, v))];
        const y = start + i * thick;
        const end = Math.max(b, typeof series.high?.[k] === "number" ? x(series.high[k]) : b);
        node.append(svg("g", { "data-series": i }, told(series.name, name, v, series.low?.[k], series.high?.[k]), svg("rect", { x: a, y: y + 0.5, width: Math.max(1, b - a), height: thick - 1, rx: 1.5, fill: ink(i, name) }), whisker(series, k, { scale: x, middle: y + thick / 2 }, true),
          figure.series.length === 1 ? text(end + 7, y + thick / 2 + 4, write(v), { "font-size": 11, class: "over", ...soft }) : null));
      });
    });
    node.append(label((left + right) / 2, base + 38, figure.y, wide - 20, { "text-anchor": "middle", ...soft }));
    return node;
  }

  function references(node, figure, path, place) {
    for (const [name, v] of figure.lines) {
      const [x, y, anchor] = place(v);
      node.append(line(...path(v), { stroke: name === "oracle" ? GOLD : "currentColor", "stroke-dasharray": "3 3", "stroke-opacity": 0.8 }), text(x, y, name, { "text-anchor": anchor, "font-size": 11, ...soft }));
    }
  }

  return bars;
})();
