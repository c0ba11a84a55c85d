// Lines: y over x, a band from low to high; each line is named at its end where there is room, else above.
"use strict";
KARAT.plots.lines = (() => {
  const { svg } = KARAT.dom;
  const { GOLD, width, ticks, tick, scale, extent, text, soft, line, frame, label, marker, looks, legend, apart, yAxis, axisRoom, told, groups, known } = KARAT.chart;
  const PITCH = 15;

  /** Where x stands: numbers on a scale, anything else side by side. Returns {at, marks: [value, label]}. */
  function across(series, left, right) {
    const values = groups(series);
    if (values.every((v) => typeof v === "number")) {
      const [low, high] = [Math.min(...values), Math.max(...values)];
      const x = low === high ? () => (left + right) / 2 : scale(low, high, left, right);
      const few = values.length <= 9 && [...values].sort((a, b) => a - b).every((v, i, all) => !i || x(v) - x(all[i - 1]) > width(tick(v)) + 8);
      return { at: x, marks: (few ? values : ticks(low, high, Math.max(2, Math.min(8, (right - left) / 70)))).map((v) => [x(v), tick(v)]), numeric: true };
    }
    const room = (right - left) / values.length;
    const x = new Map(values.map((v, i) => [v, left + (i + 0.5) * room]));
    return { at: (v) => x.get(v), marks: values.map((v) => [x.get(v), v]), room, numeric: false };
  }

  /** Marks below an x axis; names that would touch are turned. Returns the height used. */
  function below(node, marks, base, name, left, right, room) {
    const wide = Math.max(...marks.map(([, t]) => width(t)), 0);
    const turned = room && wide > room - 6;
    for (const [x, t] of marks) {
      if (turned) node.append(label(x, base + 14, t, 130, { "text-anchor": "end", transform: `rotate(-35 ${x} ${base + 14})` }));
      else node.append(text(x, base + 18, t, { "text-anchor": "middle", ...soft }));
    }
    const deep = turned ? 22 + Math.min(wide, 130) * 0.6 : 26;
    node.append(label((left + right) / 2, base + deep + 14, name, right - left, { "text-anchor": "middle", ...soft }));
    return deep + 24;
  }

  function ends(figure, place, high) {
    // The last point of each line, as the place its name starts from.
    return figure.series.map((series, i) => {
      const last = series.y.reduce((found, v, k) => (typeof v === "number" ? k : found), -1);
      return { i, at: last < 0 ? high : place(series.y[last]), from: last < 0 ? null : [series.x[last], series.y[last]] };
    });
  }

  function lines(figure, wide) {
    const names = figure.series.map((s) => s.name);
    const styles = looks(names);
    const most = Math.max(...names.map((n) => width(n)), ...figure.lines.map(([n]) => width(n)), 0);
    const direct = names.length > 1 && names.length <= 14 && wide >= 520 && most <= wide * 0.34;
    const values = figure.series.flatMap((s) => [...s.y, ...(s.low || []), ...(s.high || [])]).concat(figure.lines.map((l) => l[1]));
    const [low, high] = extent(values);
    const marks = ticks(low, high);
    const left = axisRoom(marks) + 6;
    const right = direct ? wide - most - 26 : wide - (figure.lines.length ? Math.max(...figure.lines.map(([n]) => width(n))) + 12 : 14);
    const key = direct ? { node: null, height: 0 } : legend(names, styles, left, wide - 8);
    const top = key.height + 32;
    const base = top + Math.max(190, Math.min(300, wide * 0.42), direct ? names.length * PITCH : 0);
    const y = scale(low, high, base, top);
    const x = across(figure.series, left + 6, right - 6);
    const turned = x.room && Math.max(...x.marks.map(([, t]) => width(t))) > x.room - 6;
    const node = frame(wide, base + (turned ? 110 : 54), figure.title);
    if (key.node) node.append(key.node);
    yAxis(node, y, marks, left, right, top, figure.y, wide - left);
    below(node, x.marks, base, figure.x, left, right, x.room);
    for (const [name, v] of figure.lines) node.append(line(left, y(v), right, y(v), { stroke: name === "oracle" ? GOLD : "currentColor", "stroke-dasharray": "3 3", "stroke-opacity": 0.8 }));
    // Many bands over each other are one grey: few series get bands, more get bars at their points, many points neither.
    const bands = names.length <= 4;
    const bars = !bands && groups(figure.series).length <= 12;
    if (bands) figure.series.forEach((series, i) => node.append(band(series, i, styles[i], x, y)));
    figure.series.forEach((series, i) => node.append(path(series, i, styles[i], x, y, bars)));
    const said = figure.lines.map(([name, v]) => ({ name, at: y(v) }));
    if (direct) said.push(...ends(figure, y, base).filter((e) => e.from).map((e) => ({ ...e, name: names[e.i] })));
    for (const one of apart(said, PITCH, top, base)) {
      const named = one.i !== undefined;
      if (named) node.append(line(x.at(one.from[0]) + 6, y(one.from[1]), right + 8, one.at, { stroke: styles[one.i].colour, "stroke-opacity": 0.5 }));
      node.append(svg("g", named ? { "data-series": one.i } : null, text(right + 11, one.at + 4, one.name, named ? { fill: styles[one.i].colour, "font-weight": 500 } : { "font-size": 11, ...soft })));
    }
    return node;
  }

  /** Runs of points that have a value: a gap in the numbers is a gap in the line. */
  function runs(series, has) {
    const found = [[]];
    series.x.forEach((_, k) => (has(k) ? found[found.length - 1].push(k) : found.push([])));
    return found.filter((run) => run.length);
  }

  function band(series, i, style, x, y) {
    if (!series.low || !series.high) return svg("g");
    const parts = runs(series, (k) => known([series.low[k], series.high[k]]).length === 2).map((run) =>
      `M${run.map((k) => `${x.at(series.x[k])} ${y(series.high[k])}`).join("L")}L${[...run].reverse().map((k) => `${x.at(series.x[k])} ${y(series.low[k])}`).join("L")}Z`);
    return svg("g", { "data-series": i }, svg("path", { d: parts.join(""), fill: style.colour, "fill-opacity": 0.13 }));
  }

  function path(series, i, style, x, y, bars) {
    const d = runs(series, (k) => typeof series.y[k] === "number").map((run) => `M${run.map((k) => `${x.at(series.x[k])} ${y(series.y[k])}`).join("L")}`).join("");
    const bar = (value, k) => (bars && known([series.low?.[k], series.high?.[k]]).length === 2 ? line(x.at(value), y(series.low[k]), x.at(value), y(series.high[k]), { stroke: style.colour, "stroke-opacity": 0.45 }) : null);
    const dot = (value, k) => svg("g", null, told(series.name, value, series.y[k], series.low?.[k], series.high?.[k]), bar(value, k), marker(x.at(value), y(series.y[k]), style.shape, style.colour, 3.6));
    const dots = series.x.length <= 40 ? series.x.map((value, k) => (typeof series.y[k] === "number" ? dot(value, k) : null)) : [];
    return svg("g", { "data-series": i }, svg("path", { d, fill: "none", stroke: style.colour, "stroke-width": 1.8, "stroke-linejoin": "round", "stroke-dasharray": style.dash }), dots);
  }

  return Object.assign(lines, { across, below });
})();
