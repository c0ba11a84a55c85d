// What a score was computed from, under its map: curves, or a compass around the reference object.
"use strict";
KARAT.detail = (() => {
  const { el, svg } = KARAT.dom;
  const { scale, extent, known } = KARAT.chart;
  const { figure } = KARAT.format;
  const [WIDE, HIGH, PAD] = [240, 74, 6];
  const FEWEST = 4; // numbers that make a curve

  /** Of the score shown, else of the first score that has any: {metric, curves: [{name, values}]}, or null. */
  function of(kept, protocol, shown) {
    const metrics = KARAT.core.metrics;
    const have = Object.keys(kept?.details ?? {});
    const name = have.includes(shown) ? shown : have[0];
    const metric = metrics.find((m) => m.protocol === protocol && m.name === name);
    if (!metric) return null;
    const curves = kept.details[name];
    if (curves.some((values) => values.length < FEWEST)) return null;
    return { metric: metric.name, how: metric.draws[0][1], curves: metric.draws.map(([name], i) => ({ name, values: curves[i] })) };
  }

  const isCompass = (detail) => detail !== null && detail.how === "compass";

  /** Small curves over the steps from first to last. `move(share)` is told where the pointer is. */
  function curves(detail, move) {
    const [low, high] = extent(detail.curves.flatMap((c) => c.values).concat(0), 0.02);
    const y = scale(low, high, HIGH - PAD, PAD);
    const x = (k, n) => PAD + (k * (WIDE - 2 * PAD)) / (n - 1);
    const ink = (i) => `var(--s${i % KARAT.chart.HUES})`;
    const lines = detail.curves.map(({ values }, i) => svg("path", { d: values.map((v, k) => (v === null ? "" : `${k && values[k - 1] !== null ? "L" : "M"}${x(k, values.length).toFixed(1)} ${y(v).toFixed(1)}`)).join(""), fill: "none", stroke: ink(i), "stroke-width": 1.6, "data-series": i }));
    const rule = svg("line", { y1: PAD, y2: HIGH - PAD, stroke: "currentColor", "stroke-opacity": 0.6, visibility: "hidden" });
    const label = `${detail.metric}: ${detail.curves.map((c) => `${c.name} from ${figure(c.values[0])} to ${figure(c.values[c.values.length - 1])}`).join("; ")}`;
    const picture = svg("svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, class: "curves", role: "img", "aria-label": label },
      svg("line", { x1: PAD, x2: WIDE - PAD, y1: y(0), y2: y(0), stroke: "currentColor", "stroke-opacity": 0.25 }),
      svg("text", { x: WIDE - PAD, y: PAD + 8, "text-anchor": "end", "font-size": 9, fill: "currentColor", "fill-opacity": 0.75 }, figure(Math.max(...known(detail.curves.flatMap((c) => c.values))))), lines, rule);
    const alone = (i) => () => lines.forEach((line, k) => line.setAttribute("opacity", i === null || i === k ? 1 : 0.12));
    const names = detail.curves.map((c, i) => el("span", { onpointerenter: alone(i), onpointerleave: alone(null) }, el("i", { style: { background: ink(i) } }), el("bdi", null, c.name), " ", el("b")));
    picture.addEventListener("pointermove", (event) => {
      const box = picture.getBoundingClientRect();
      move(Math.min(1, Math.max(0, ((event.clientX - box.left) / box.width * WIDE - PAD) / (WIDE - 2 * PAD))));
    });
    picture.addEventListener("pointerleave", () => move(null));
    return {
      node: el("div", { class: "detail" }, picture, el("p", { class: "curvenames" }, names)),
      /** Read every curve at that share of its steps. */
      at(share) {
        rule.setAttribute("visibility", share === null ? "hidden" : "visible");
        if (share !== null) for (const end of ["x1", "x2"]) rule.setAttribute(end, PAD + share * (WIDE - 2 * PAD));
        detail.curves.forEach((c, i) => { names[i].querySelector("b").textContent = share === null ? "" : figure(c.values[Math.round(share * (c.values.length - 1))]); });
      },
    };
  }

  /** The compass over the image: a petal per direction, as long and as warm as its share; an arrow where the strongest
   * points, and one to the target. */
  function compass(detail, scene) {
    const [reference, target] = scene?.compass ?? [null, null];
    if (!reference) return null;
    const values = detail.curves[0].values;
    const most = Math.max(...known(values), 1e-12);
    const [width, height] = scene.size;
    const reach = 0.34 * Math.min(width, height);
    const thin = Math.max(width, height) / 260;
    const spot = (turn, far) => `${(reference[0] + far * Math.cos(turn)).toFixed(1)} ${(reference[1] - far * Math.sin(turn)).toFixed(1)}`;
    const half = Math.PI / values.length;
    const petals = values.map((v, k) => {
      const turn = 2 * half * k;
      const share = Math.max(0, (v ?? 0) / most);
      const far = reach * Math.max(0.02, share);
      return svg("path", { style: { "--share": share.toFixed(3) }, d: `M${reference.join(" ")}L${spot(turn - half * 0.86, far)}A${far} ${far} 0 0 0 ${spot(turn + half * 0.86, far)}Z`, class: v === most && values.filter((one) => one === most).length === 1 ? "petal peak" : "petal", "stroke-width": thin },
        svg("title", null, `${Math.round((turn * 180) / Math.PI)}°: ${figure(v)}`));
    });
    const arrow = (end, name, thick) => {
      const turn = Math.atan2(end[1] - reference[1], end[0] - reference[0]);
      const wing = (s) => `${(end[0] - 5 * thick * Math.cos(turn + s)).toFixed(1)},${(end[1] - 5 * thick * Math.sin(turn + s)).toFixed(1)}`;
      return [svg("line", { x1: reference[0], y1: reference[1], x2: end[0], y2: end[1], class: name, "stroke-width": thick }),
        svg("polygon", { points: `${end.join(",")} ${wing(0.45)} ${wing(-0.45)}`, class: name })];
    };
    const peaks = values.flatMap((v, k) => (v === most ? [2 * half * k] : []));
    const length = target ? Math.hypot(target[0] - reference[0], target[1] - reference[1]) : reach;
    const needle = peaks.length === 1 ? arrow([reference[0] + length * Math.cos(peaks[0]), reference[1] - length * Math.sin(peaks[0])], "needle", 1.5 * thin) : null;
    const way = target ? arrow(target, "way", 3 * thin) : null;
    return svg("svg", { viewBox: `0 0 ${width} ${height}`, class: "rose", preserveAspectRatio: "none", "aria-hidden": "true" }, svg("circle", { cx: reference[0], cy: reference[1], r: reach, class: "rim", "stroke-width": thin }), petals, way, needle);
  }

  return { of, curves, compass, isCompass };
})();
