// Colour maps, computed in OKLab, where equal distances look equal: each is a path of even steps, its lightness rising
// throughout (so it survives grey print and every kind of colour vision). Signed maps diverge from a pale zero.
"use strict";
KARAT.colour = (() => {
  const STEPS = 256;

  /** OKLCH (lightness 0..1, chroma, hue in degrees) to linear sRGB. */
  function linear(l, c, h) {
    const a = c * Math.cos((h * Math.PI) / 180);
    const b = c * Math.sin((h * Math.PI) / 180);
    const [x, y, z] = [
      l + 0.3963377774 * a + 0.2158037573 * b,
      l - 0.1055613458 * a - 0.0638541728 * b,
      l - 0.0894841775 * a - 1.291485548 * b,
    ].map((v) => v ** 3);
    return [
      4.0767416621 * x - 3.3077115913 * y + 0.2309699292 * z,
      -1.2684380046 * x + 2.6097574011 * y - 0.3413193965 * z,
      -0.0041960863 * x - 0.7034186147 * y + 1.707614701 * z,
    ];
  }

  const inside = (rgb) => rgb.every((v) => v >= -1e-4 && v <= 1.0001);

  /** The nearest colour that a screen can show: chroma gives way, lightness and hue stay. */
  function fit([l, c, h]) {
    let low = 0;
    let high = c;
    if (inside(linear(l, c, h))) return [l, c, h];
    for (let i = 0; i < 20; i++) {
      const middle = (low + high) / 2;
      if (inside(linear(l, middle, h))) low = middle;
      else high = middle;
    }
    return [l, low, h];
  }

  const rgb = ([l, c, h]) =>
    linear(l, c, h).map((v) => {
      const t = Math.min(1, Math.max(0, v));
      return Math.round(255 * (t <= 0.0031308 ? 12.92 * t : 1.055 * t ** (1 / 2.4) - 0.055));
    });

  const lab = ([l, c, h]) => [l, c * Math.cos((h * Math.PI) / 180), c * Math.sin((h * Math.PI) / 180)];

  /** (256 × 3) bytes along path(t), t in 0..1, at even distances in OKLab. */
  function even(path) {
    const fine = Array.from({ length: 1025 }, (_, i) => fit(path(i / 1024)));
    const along = [0];
    for (let i = 1; i < fine.length; i++) {
      const [p, q] = [lab(fine[i - 1]), lab(fine[i])];
      along.push(along[i - 1] + Math.hypot(p[0] - q[0], p[1] - q[1], p[2] - q[2]));
    }
    const table = new Uint8Array(STEPS * 3);
    for (let k = 0, i = 0; k < STEPS; k++) {
      const wanted = (along[along.length - 1] * k) / (STEPS - 1);
      while (i < fine.length - 2 && along[i + 1] < wanted) i++;
      table.set(rgb(fine[Math.min(i + 1, fine.length - 1)]), 3 * k);
    }
    return table;
  }

  const arch = (t) => Math.sin(Math.PI * Math.min(1, Math.max(0, t)));
  const arm = (t, hue) => [0.97 - 0.55 * t, 0.19 * Math.sin((Math.PI / 2) * Math.min(1, 1.2 * t)), hue];
  const paths = {
    ember: (t) => [0.14 + 0.82 * t, 0.02 + 0.2 * arch(t * 0.95 + 0.03), -75 + 178 * t], // violet, red, gold
    lagoon: (t) => [0.26 + 0.68 * t, 0.1 + 0.1 * t, 300 - 195 * t], // indigo, teal, yellow
    grey: (t) => [0.1 + 0.88 * t, 0, 0],
  };
  const signed = { "blue–orange": [255, 50], "violet–green": [310, 150] };
  const tables = new Map();

  function table(name) {
    if (!tables.has(name)) {
      if (signed[name]) {
        const [left, right] = signed[name].map((hue) => even((t) => arm(t, hue)));
        const both = new Uint8Array(STEPS * 3);
        for (let k = 0; k < STEPS; k++) {
          const side = k < 127.5 ? left : right;
          const at = Math.min(STEPS - 1, Math.round(Math.abs(k - 127) * 2));
          both.set(side.subarray(3 * at, 3 * at + 3), 3 * k);
        }
        tables.set(name, both);
      } else tables.set(name, even(paths[name]));
    }
    return tables.get(name);
  }

  /** CSS colour of a level 0..255 in a map. */
  const css = (name, level) => `rgb(${table(name).slice(3 * level, 3 * level + 3).join(" ")})`;

  /** Black or white, whichever is easier to read on that colour. */
  function on(name, level) {
    const [r, g, b] = [...table(name).slice(3 * level, 3 * level + 3)].map((v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.18 ? "#000" : "#fff";
  }

  const gradient = (name) => `linear-gradient(to right, ${Array.from({ length: 17 }, (_, i) => css(name, Math.round((255 * i) / 16))).join(", ")})`;

  const roles = new Map([["target", "#e8590c"], ["class", "#e8590c"], ["anchor", "#1c7ed6"], ["adversarial", "#ae3ec9"], ["relation", "#2b8a3e"], ["distractor", "#868e96"], ["header", "#868e96"]]);
  const spare = ["#0b7285", "#a61e4d", "#5f3dc4", "#5c940d"];
  function role(name) {
    if (!roles.has(name)) roles.set(name, spare[roles.size % spare.length]);
    return roles.get(name);
  }

  return { table, css, on, gradient, role, plain: Object.keys(paths), signed: Object.keys(signed) };
})();
