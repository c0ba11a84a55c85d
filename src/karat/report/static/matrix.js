// One question, models as columns and explainers as rows: small multiples in one scale, the truth outlined per model.
// Two cells can be flicked between in one place, which shows what side by side hides.
"use strict";
KARAT.matrix = (() => {
  const { el, breakable } = KARAT.dom;
  const { score, DASH } = KARAT.format;
  let pair = []; // [explainer, model] of the cells to flick between
  let front = 0;

  const label = ([explainer, model]) => `${explainer}|${model}`;
  const same = (a, b) => a[0] === b[0] && a[1] === b[1];

  /** Items of one sample, one for each model that has it. */
  function twins(data, i, values) {
    const s = data.item.sample[i];
    const found = [];
    for (let j = values.start; j < values.start + values.items; j++) if (data.item.sample[j] === s) found.push(j);
    return found;
  }

  /** `columns`: [{item, model, kept}]. Gives {node, cards, flick}: cards repaint, mark and point like those of viewer.js. */
  function build(data, columns, scene, values, look, state, { point, aim, link }) {
    const cards = [];
    const truth = (model) => KARAT.core.mechanisms[model];
    const stage = (kept, explainer, model) => {
      const map = kept?.map ? KARAT.canvas.decode(kept.map) : null;
      const made = KARAT.canvas.stage(scene, map, look, `${explainer} on ${model}${map ? "" : ": no map"}`, point, aim);
      const detail = map && KARAT.detail.of(kept, state.protocol, state.metric);
      const overlay = detail && KARAT.detail.isCompass(detail) ? KARAT.detail.compass(detail, scene) : null;
      if (overlay) made.node.append(overlay);
      cards.push({ rose: Boolean(overlay), at() {}, repaint: () => made.repaint(look), mark: (roles) => made.mark(roles, truth(model)), point: made.point });
      return made;
    };
    const heads = columns.map(({ item, model }) => {
      const right = { 0: ["✗", "wrong"], 1: ["✓", "right"] }[data.item.correct[item]];
      return el("th", { scope: "col" }, el("span", { class: "name", dir: "auto" }, model),
        el("span", { class: "sub" }, el("bdi", null, data.item.answer.at(item) ?? DASH), right ? el("span", { class: `tick ${right[1]}` }, ` ${right[0]} ${right[1]}`) : null));
    });
    const known = data.explainers.map((name, e) => ({ name, e })).filter(({ name, e }) => columns.some(({ item, kept }) => values.codes[e * values.items + item - values.start] !== 255 || kept[name]));
    const ordered = [...known.filter((k) => !KARAT.control(k.name)), ...known.filter((k) => KARAT.control(k.name))];
    const picture = el("tr", null, el("th", { scope: "row" }, "Image"), columns.map(({ model }) => el("td", null, scene ? stage(null, "Image", model).node : null)));
    const rows = ordered.map(({ name, e }) => el("tr", { class: KARAT.control(name) ? "control" : null }, el("th", { scope: "row", dir: "auto" }, breakable(name)), columns.map((column) => cell(name, e, column))));
    const panel = el("section", { class: "flick", "aria-label": "Flick between two", hidden: true });
    const node = el("div", { class: "twins" }, panel, el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Models side by side" },
      el("table", { class: "matrix", style: { "--models": columns.length } }, el("caption", { class: "sr" }, "Every explainer on every model"), el("thead", null, el("tr", null, el("td", null), heads)), el("tbody", null, picture, rows))));

    function cell(explainer, e, { item, model, kept }) {
      const value = KARAT.filter.at(values, e, item);
      const reason = values.reasons[values.codes[e * values.items + item - values.start] - 1];
      const drawn = kept[explainer] ? stage(kept[explainer], explainer, model).node : el("p", { class: "reason" }, reason ? reason[1] : "no map");
      const choose = el("button", { type: "button", class: "pick", "aria-pressed": "false", "aria-label": `${explainer} on ${model}, ${value === null ? "no score" : score(value)}: choose to flick`, onclick: () => pick([explainer, model]) }, value === null ? DASH : score(value));
      return el("td", { "data-cell": label([explainer, model]), class: state.cell === label([explainer, model]) ? "linked" : null, title: reason ? reason[1] : null }, drawn, choose);
    }

    function pick(chosen) {
      pair = pair.some((one) => same(one, chosen)) ? pair.filter((one) => !same(one, chosen)) : [...pair.slice(-1), chosen];
      front = pair.length - 1;
      link(label(chosen));
      show();
    }

    let shown = [];
    function show() {
      const inside = panel.contains(document.activeElement);
      const there = pair.filter(([explainer, model]) => columns.some((c) => c.model === model && c.kept[explainer]?.map));
      for (const td of node.querySelectorAll("[data-cell]")) {
        const on = pair.some((one) => label(one) === td.dataset.cell);
        td.classList.toggle("linked", td.dataset.cell === state.cell);
        td.querySelector("button").setAttribute("aria-pressed", String(on));
      }
      panel.hidden = !there.length;
      cards.splice(cards.length - shown.length, shown.length);
      shown = [];
      if (panel.hidden) return;
      const now = there[front % there.length];
      const before = cards.length;
      const large = stage(columns.find((c) => c.model === now[1]).kept[now[0]], now[0], now[1]);
      shown = cards.slice(before);
      panel.replaceChildren(large.node, el("div", null, el("h3", { dir: "auto" }, now[0]), el("p", { dir: "auto" }, `on ${now[1]}`),
        there.length > 1 ? el("button", { type: "button", "aria-keyshortcuts": "f", onclick: flick }, "Flick to the other") : el("p", { class: "note" }, "Choose a second cell to flick between the two."),
        el("button", { type: "button", class: "quiet", onclick: () => leave(now) }, "Done")));
      shown.forEach((card) => card.mark(build.roles?.() ?? new Set()));
      if (inside) panel.querySelector("button")?.focus();
    }

    /** Back to the cell that was in front. */
    function leave(cell) {
      pair = [];
      show();
      [...node.querySelectorAll("[data-cell]")].find((td) => td.dataset.cell === label(cell))?.querySelector("button").focus();
    }

    function flick() {
      if (pair.length < 2) return;
      front = (front + 1) % 2;
      show();
      KARAT.dom.say(`${pair[front][0]} on ${pair[front][1]}`);
    }

    return { node, cards, flick, show };
  }

  return { build, twins };
})();
