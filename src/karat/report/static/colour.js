// Colour tables and how much a heatmap covers: those of `karat.drawing`, which came with the page's data.
"use strict";
KARAT.colour = (() => {
  const { plain, signed, alpha, veil } = KARAT.core.colours;
  const bytes = new Map([...plain, ...signed].map(([name, data]) => [name, KARAT.bytes(data)]));
  const table = (name) => bytes.get(name);

  /** How much of the picture a value of strength 0..1 covers, of what the strongest do: 0..255. */
  const cover = (strength) => Math.round(255 * (veil + (1 - veil) * strength));

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

  return { table, css, on, gradient, role, cover, alpha, plain: plain.map(([name]) => name), signed: signed.map(([name]) => name) };
})();
