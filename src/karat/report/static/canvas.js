// One explanation over its image: picture, heatmap, regions and a cross that follows the pointer on every card at once.
"use strict";
KARAT.canvas = (() => {
  const { el, svg } = KARAT.dom;
  const { colour } = KARAT;

  /** A map [h, w, signed, base64] as {h, w, signed, levels}. */
  const decode = ([h, w, signed, data]) => ({ h, w, signed: Boolean(signed), levels: KARAT.bytes(data) });

  /** Value of a level: 0..1, or -1..1 where signed. */
  const value = (map, level) => (map.signed ? (level - 127) / 127 : level / 255);

  function paint(canvas, map, look) {
    canvas.width = map.w;
    canvas.height = map.h;
    const table = colour.table(map.signed ? look.signed : look.map);
    const pixels = new ImageData(map.w, map.h);
    for (let i = 0; i < map.levels.length; i++) {
      const k = 3 * (map.signed ? Math.min(255, map.levels[i]) : map.levels[i]);
      pixels.data.set([table[k], table[k + 1], table[k + 2], colour.cover(Math.abs(value(map, map.levels[i])))], 4 * i);
    }
    canvas.getContext("2d").putImageData(pixels, 0, 0);
  }

  function regions(scene, roles, mechanism) {
    const [width, height] = scene.size;
    const thick = Math.max(width, height) / 160;
    const drawn = scene.regions.filter((r) => roles.has(r.role)).map((r) => {
      const ink = colour.role(r.role);
      const title = svg("title", null, [r.name, r.label].filter(Boolean).join(": "));
      const boxes = r.boxes.map(([x, y, w, h]) => `M${x} ${y}h${w}v${h}h${-w}z`);
      const edges = r.edges.map(([x, y, dx, dy]) => `M${x} ${y}l${dx} ${dy}`);
      const line = { d: [...boxes, ...edges].join(""), fill: "none", "stroke-linecap": "square" };
      // White under the colour: a line that shows on any heatmap.
      return svg("g", null, title, svg("path", { ...line, stroke: "#fff", "stroke-width": 2.2 * thick }), svg("path", { ...line, stroke: ink, "stroke-width": 1.3 * thick }));
    });
    // What this very model must use, in gold, whatever else is marked.
    const used = (scene.truth?.[mechanism] ?? []).map(([x, y, dx, dy]) => `M${x} ${y}l${dx} ${dy}`).join("");
    if (used) for (const [ink, times] of [["#fff", 2.6], ["#b07d00", 1.5]]) drawn.push(svg("path", { d: used, fill: "none", "stroke-linecap": "square", stroke: ink, "stroke-width": times * thick }));
    return svg("svg", { viewBox: `0 0 ${width} ${height}`, class: "regions", "aria-hidden": "true", preserveAspectRatio: "none" }, drawn);
  }

  // All stages are magnified alike, around one point (shares of the image).
  const lens = { times: 1, x: 0.5, y: 0.5 };
  const under = (seen, fixed) => fixed + (seen - fixed) / lens.times; // where on the image a place on the stage is
  const over = (place, fixed) => fixed + (place - fixed) * lens.times; // and back

  /** The stage of one card. `move(x, y)` is called with the pointer's place as shares of the image, or nulls. */
  function stage(scene, map, look, label, move, aim) {
    const [width, height] = scene ? scene.size : map ? [map.w, map.h] : [1, 1];
    const node = el("div", { class: "stage", role: "img", "aria-label": label, style: { "aspect-ratio": `${width} / ${height}` } });
    if (scene) node.append(el("img", { src: scene.image, alt: "", loading: "lazy", draggable: "false" }));
    let canvas = null;
    if (map) {
      canvas = el("canvas", { class: "heat" });
      paint(canvas, map, look);
      node.append(canvas);
    }
    const cross = el("i", { class: "cross", hidden: true });
    node.append(cross);
    node.addEventListener("pointermove", (event) => {
      const box = node.getBoundingClientRect();
      move(under((event.clientX - box.left) / box.width, lens.x), under((event.clientY - box.top) / box.height, lens.y));
    });
    node.addEventListener("click", (event) => {
      const box = node.getBoundingClientRect();
      aim(under((event.clientX - box.left) / box.width, lens.x), under((event.clientY - box.top) / box.height, lens.y));
    });
    node.addEventListener("pointerleave", () => move(null, null));
    let drawn = null;
    return {
      node,
      repaint(next) {
        if (map) paint(canvas, map, next);
      },
      mark(roles, mechanism = null) {
        drawn?.remove();
        drawn = scene ? regions(scene, roles, mechanism) : null;
        if (drawn) node.insertBefore(drawn, cross);
      },
      /** Put the cross there and say the map's value under it. */
      point(x, y) {
        cross.hidden = x === null;
        if (x === null) return null;
        cross.style.left = `${100 * over(x, lens.x)}%`;
        cross.style.top = `${100 * over(y, lens.y)}%`;
        if (!map) return null;
        const [i, j] = [Math.min(map.h - 1, Math.max(0, Math.floor(y * map.h))), Math.min(map.w - 1, Math.max(0, Math.floor(x * map.w)))];
        return value(map, map.levels[i * map.w + j]);
      },
    };
  }

  return { decode, stage, value, lens };
})();
