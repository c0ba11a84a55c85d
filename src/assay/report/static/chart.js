// Small hand-made charts: scales, ticks and axes in plain SVG. Colours are written out, so that a saved figure is whole.
"use strict";
ASSAY.chart = (() => {
  const { svg } = ASSAY.dom;
  const FONT = "ui-sans-serif, system-ui, 'Segoe UI', Helvetica, Arial, sans-serif";

  /** 1, 2 or 5 times a power of ten: about `n` ticks between low and high. */
  function ticks(low, high, n = 5) {
    const rough = (high - low) / n || 1;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough);
    const found = [];
    for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k++) found.push(Number((k * step).toPrecision(12)));
    return found;
  }

  const scale = (low, high, from, to) => (v) => from + ((v - low) / (high - low || 1)) * (to - from);

  /** Range of all finite numbers, with some air. */
  function extent(values, air = 0.06) {
    const kept = values.filter((v) => v !== null && Number.isFinite(v));
    let [low, high] = [Math.min(...kept), Math.max(...kept)];
    if (!kept.length) [low, high] = [0, 1];
    if (low === high) [low, high] = [low - 0.5, high + 0.5];
    return [low - air * (high - low), high + air * (high - low)];
  }

  const text = (x, y, content, more = {}) => svg("text", { x, y, fill: "currentColor", "font-size": 12, ...more }, content);
  const line = (x1, y1, x2, y2, more = {}) => svg("line", { x1, y1, x2, y2, stroke: "currentColor", ...more });

  function frame(width, height, label) {
    return svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label, "font-family": FONT, class: "chart" });
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

  return { ticks, scale, extent, text, line, frame, marker };
})();
