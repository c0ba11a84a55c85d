// What all plots share: scales, ticks, measured labels, legends. Figures are plain SVG that draws itself at a given
// width; colours are variables that a saved file gets written out (see save.js).
"use strict";
KARAT.chart = (() => {
  const { svg } = KARAT.dom;
  const FONT = "ui-sans-serif, system-ui, 'Segoe UI', Helvetica, Arial, sans-serif";
  const SIZE = 12;
  const GOLD = "var(--gold-fill)";
  const GREY = "var(--grey)";
  const pen = document.createElement("canvas").getContext("2d");
  pen.font = `${SIZE}px ${FONT}`;

  /** Width of a label in pixels. */
  const width = (text, weight = 1) => pen.measureText(String(text)).width * weight;

  /** A label that is no wider than `room`, cut in the middle: names of explainers differ at both ends. */
  function fit(text, room) {
    const letters = Array.from(String(text));
    if (width(text) <= room) return String(text);
    let keep = letters.length - 1;
    const cut = () => `${letters.slice(0, Math.ceil(keep * 0.6)).join("")}…${letters.slice(letters.length - Math.floor(keep * 0.4)).join("")}`;
    while (keep > 2 && width(cut()) > room) keep--;
    return cut();
  }

  /** 1, 2 or 5 times a power of ten: about `n` ticks between low and high. */
  function ticks(low, high, n = 5) {
    const rough = (high - low) / n || 1;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough);
    const found = [];
    for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k++) found.push(Number((k * step).toPrecision(12)));
    return found;
  }

  const tick = (t) => (Math.abs(t) >= 10000 ? new Intl.NumberFormat("en").format(t) : String(t)).replace("-", "−");
  const scale = (low, high, from, to) => (v) => from + ((v - low) / (high - low || 1)) * (to - from);
  const known = (values) => values.filter((v) => typeof v === "number" && Number.isFinite(v));

  /** Range of all finite numbers, with some air. */
  function extent(values, air = 0.06) {
    const kept = known(values);
    let [low, high] = [Math.min(...kept), Math.max(...kept)];
    if (!kept.length) [low, high] = [0, 1];
    if (low === high) [low, high] = [low - 0.5, high + 0.5];
    return [low - air * (high - low), high + air * (high - low)];
  }

  const text = (x, y, content, more = {}) => svg("text", { x, y, fill: "currentColor", "font-size": SIZE, ...more }, String(content));
  const soft = { "fill-opacity": 0.78 };
  const line = (x1, y1, x2, y2, more = {}) => svg("line", { x1, y1, x2, y2, stroke: "currentColor", ...more });
  const hint = (content) => svg("title", null, content);

  function frame(wide, high, label) {
    return svg("svg", { viewBox: `0 0 ${Math.ceil(wide)} ${Math.ceil(high)}`, role: "img", "aria-label": label, "font-family": FONT, class: "chart" });
  }

  /** A label that may be cut, whole in its tooltip. */
  function label(x, y, content, room, more = {}) {
    const shown = fit(content, room);
    const node = text(x, y, shown, more);
    if (shown !== String(content)) node.append(hint(content));
    return node;
  }

  const SHAPES = ["circle", "square", "diamond", "triangle"];
  /** A marker by number: hue and shape both change, so either is enough. */
  function marker(x, y, i, colour, size = 4.5) {
    const common = { fill: colour, stroke: "none" };
    const shape = SHAPES[i % SHAPES.length];
    if (shape === "circle") return svg("circle", { cx: x, cy: y, r: size, ...common });
    if (shape === "square") return svg("rect", { x: x - size * 0.9, y: y - size * 0.9, width: size * 1.8, height: size * 1.8, ...common });
    const d = shape === "diamond" ? `M${x} ${y - size * 1.25}l${size * 1.25} ${size * 1.25}l${-size * 1.25} ${size * 1.25}l${-size * 1.25} ${-size * 1.25}z`
      : `M${x} ${y - size * 1.15}l${size * 1.15} ${size * 2.1}h${-size * 2.3}z`;
    return svg("path", { d, ...common });
  }

  const grey = (name) => KARAT.control(name);
  const HUES = 8;
  const seen = new Map(KARAT.core.browser.explainers.filter((name) => !grey(name)).map((name, i) => [name, i]));
  /** Colour and shape of every series. An explainer keeps its own through the page, unless two in a figure would share. */
  function looks(names) {
    const controls = (name) => grey(name) && !names.every(grey);
    const judged = names.filter((name) => !controls(name));
    const known = judged.every((name) => String(name).includes("/"));
    for (const name of known ? judged : []) if (!seen.has(name)) seen.set(name, seen.size);
    const own = known && new Set(judged.map((name) => seen.get(name) % HUES)).size === judged.length;
    return names.map((name) => {
      if (controls(name)) return { shape: 1, colour: GREY, dash: "4 3" };
      const i = own ? seen.get(name) : judged.indexOf(name);
      return { shape: i, colour: `var(--s${i % HUES})`, dash: own ? null : [null, "7 3", "2 3"][Math.floor(i / HUES) % 3] };
    });
  }

  /** Names of the series above a plot, as many to a line as fit. Returns {node, height}. */
  function legend(names, styles, left, right, mark = "marker") {
    const node = svg("g", { class: "names" });
    if (names.length < 2) return { node, height: 0 };
    let [x, y] = [left, 14];
    names.forEach((name, i) => {
      const shown = fit(name, right - left - 24);
      const wide = width(shown) + 38;
      if (x > left && x + wide - 16 > right) [x, y] = [left, y + 19];
      const sign = mark === "bar" ? svg("rect", { x: x + 1, y: y - 9, width: 11, height: 11, rx: 2, fill: styles[i].colour }) : marker(x + 6, y - 4, styles[i].shape, styles[i].colour, 4.2);
      node.append(svg("g", { "data-series": i }, sign, text(x + 19, y, shown, {})));
      x += wide;
    });
    return { node, height: y + 10 };
  }

  /** Move labels (objects with `at`) apart along one direction, keeping their order, within [low, high]. */
  function apart(labels, gap, low, high) {
    const order = [...labels].sort((a, b) => a.at - b.at);
    const need = gap * (order.length - 1);
    const room = Math.max(high - low, need);
    const places = order.map((one) => one.at);
    for (let round = 0; round < 60; round++) {
      let moved = false;
      for (let i = 1; i < places.length; i++) {
        const over = gap - (places[i] - places[i - 1]);
        if (over > 0.01) {
          places[i - 1] -= over / 2;
          places[i] += over / 2;
          moved = true;
        }
      }
      if (places.length) {
        const [under, above] = [low - places[0], places[places.length - 1] - (low + room)];
        if (under > 0) places[0] += under;
        if (above > 0) places[places.length - 1] -= above;
      }
      if (!moved) break;
    }
    // Whatever the rounds left: one sweep down, so that no two touch.
    for (let i = 1; i < places.length; i++) places[i] = Math.max(places[i], places[i - 1] + gap);
    order.forEach((one, i) => { one.at = places[i]; });
    return labels;
  }

  /** A vertical axis with grid lines, its name above it. */
  function yAxis(node, y, values, left, right, top, name, room) {
    for (const t of values) node.append(line(left, y(t), right, y(t), { "stroke-opacity": t === 0 ? 0.35 : 0.11 }), text(left - 8, y(t) + 4, tick(t), { "text-anchor": "end", ...soft }));
    if (name) node.append(label(Math.max(2, left - 34), top - 12, name, room ?? right - left, { "font-weight": 600 }));
  }

  /** Room that the ticks of a vertical axis need on the left. */
  const axisRoom = (values) => Math.max(30, ...values.map((t) => width(tick(t)) + 12));

  const value = (v) => KARAT.format.figure(v);
  const told = (name, x, y, low, high) => hint(`${name}${x === null ? "" : ` · ${x}`}: ${value(y)}${typeof low === "number" && typeof high === "number" ? ` (${value(low)} to ${value(high)})` : ""}`);

  /** Values of x over all series, in order of appearance. */
  const groups = (series) => [...new Set(series.flatMap((one) => one.x))];

  return { GOLD, GREY, HUES, width, fit, ticks, tick, scale, known, extent, text, soft, line, hint, frame, label, marker, grey, looks, legend, apart, yAxis, axisRoom, told, groups };
})();
