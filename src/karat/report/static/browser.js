// The sample browser: filters and a list that draws only the rows in view, beside the viewer.
"use strict";
KARAT.browser = (() => {
  const { el, choose, input, say, redraw } = KARAT.dom;
  const { score, count } = KARAT.format;
  const core = KARAT.core;
  const page = document.getElementById("page-samples");
  const ROW = 68;
  let data = null;
  let state = null;
  let values = null;
  let kept = [];
  let current = -1; // position in kept
  let list, inner, summary, search;

  async function load() {
    if (data) return;
    const raw = await KARAT.need("items");
    const { column, unpack } = KARAT;
    const sample = {
      id: [], question: [], dataset: column(raw.sample.dataset), truth: column(raw.sample.truth),
      meta: Object.fromEntries(Object.entries(raw.sample.meta).map(([key, coded]) => [key, column(coded)])),
    };
    // Texts come in blocks, pictures in chunks: what is looked at, and all texts for whoever searches.
    const lower = [];
    sample.search = (s) => (lower[s] ??= `${sample.id[s]}\n${sample.question[s] ?? ""}`.toLocaleLowerCase());
    const size = core.browser.texts;
    const blocks = new Map();
    const block = (k) => {
      if (!blocks.has(k)) blocks.set(k, KARAT.need(`texts-${k}`).then((some) => some.id.forEach((id, j) => { sample.id[k * size + j] = id; sample.question[k * size + j] = some.question[j]; })));
      return blocks.get(k);
    };
    const text = (s) => block(Math.floor(s / size));
    const texts = () => Promise.all(Array.from({ length: Math.ceil(core.browser.samples / size) }, (_, k) => block(k)));
    const chunk = (s) => raw.scenes[Math.floor(s / core.browser.scenes)];
    const scene = async (s) => (chunk(s) ? (await KARAT.need(chunk(s)))[s % core.browser.scenes] ?? null : null);
    const item = { protocol: column(raw.item.protocol), model: column(raw.item.model), answer: column(raw.item.answer) };
    for (const key of ["sample", "correct", "chunk", "place", "disagreement", "probability"]) item[key] = unpack(raw.item[key]);
    data = { item, sample, explainers: core.browser.explainers, maps: raw.maps, problems: core.browser.problems, text, texts, scene, hasPicture: (s) => Boolean(chunk(s)) };
  }

  async function scores() {
    const k = core.metrics.findIndex((m) => m.protocol === state.protocol && m.name === state.metric);
    const raw = await KARAT.need(`values-${k}`);
    const [rows, items] = raw.values.shape;
    values = { start: raw.start, rows, items, values: KARAT.unpack(raw.values), codes: KARAT.unpack(raw.codes), reasons: raw.reasons };
  }

  const defaults = () => {
    const protocol = Object.keys(core.protocols)[0];
    return { protocol, metric: core.chief[protocol].metric, explainer: data.explainers.find((e) => !KARAT.control(e)) ?? data.explainers[0], sort: "" };
  };

  async function open(params) {
    await load();
    state = { ...defaults(), ...params };
    if (!(state.protocol in core.protocols)) state.protocol = defaults().protocol;
    if (!core.metrics.some((m) => m.protocol === state.protocol && m.name === state.metric)) state.metric = core.chief[state.protocol].metric;
    await scores();
    build();
    if (state.at) await data.texts();
    await apply(state.at ? byName(state.at) : null);
  }

  function build() {
    const title = page.querySelector("h1");
    const set = (key) => async (value) => {
      state[key] = value;
      if (key === "protocol") state.metric = core.chief[value].metric;
      if (key === "protocol" || key === "metric") await scores();
      if (key === "protocol") build();
      await apply(kept[current] ?? null);
    };
    const pick = (label, key, names, any) => choose(label, [...(any ? [["", any]] : []), ...names.map((n) => (Array.isArray(n) ? n : [n, n]))], state[key] ?? "", set(key)).node;
    const metrics = core.metrics.filter((m) => m.protocol === state.protocol).map((m) => m.name);
    const metas = Object.entries(data.sample.meta).filter(([, c]) => c.values.length > 1 && c.values.length <= 40);
    const protocols = Object.keys(core.protocols);
    search = input("Search", { type: "search", value: state.search ?? "", placeholder: "question or id", "aria-keyshortcuts": "/" }, set("search"));
    const more = [
      protocols.length > 1 ? pick("Protocol", "protocol", protocols.map((p) => [p, core.plain[p]])) : null,
      data.item.model.values.length > 1 ? pick("Model", "model", data.item.model.values, "any") : null,
      data.sample.dataset.values.length > 1 ? pick("Dataset", "dataset", data.sample.dataset.values, "any") : null,
      ...metas.map(([key, c]) => pick(key, `meta.${key}`, [...c.values].sort((a, b) => a.localeCompare(b, "en", { numeric: true })), "any")),
      pick("Model's answer", "correct", [["right", "right"], ["wrong", "wrong"]], "any"), pick("Rows", "status", [["failed", "some without a value"]], "any"),
      pick("Score", "metric", metrics), pick("of explainer", "explainer", data.explainers),
      input("at least", { type: "number", step: "any", value: state.low ?? "" }, set("low")).node, input("at most", { type: "number", step: "any", value: state.high ?? "" }, set("high")).node,
    ];
    const sorts = [["maps", "maps disagree most"], ["scores", "scores disagree most"], ["high", "highest score"], ["low", "lowest score"], ["unsure", "model least sure"], ["sure", "model most sure"]];
    summary = el("p", { class: "note", role: "status" });
    inner = el("div", { class: "rows" });
    list = el("div", { class: "list", tabindex: "0", role: "listbox", "aria-label": "Samples", onscroll: rows, onkeydown: arrows }, inner);
    const reset = el("button", { type: "button", class: "quiet", onclick: () => { state = { ...defaults(), layout: state.layout, at: current >= 0 ? name(kept[current]) : "" }; KARAT.address.write("samples", state, defaults()); open(state); } }, "Clear");
    const wide = matchMedia("(min-width: 56rem)").matches;
    redraw(page, title, el("div", { class: "browser" },
      el("section", { class: "side", "aria-label": "Filter and list" },
        search.node, pick("Sort by", "sort", sorts, "order of the dataset"),
        el("details", { class: "filters", open: wide && more.length < 9 }, el("summary", null, "Filters"), el("div", { class: "fields" }, more, reset)), summary, list),
      KARAT.viewer.node));
  }

  // A sample may occur once per model: both name an item.
  const name = (i) => `${data.item.model.at(i)}|${data.sample.id[data.item.sample[i]]}`;

  function byName(at) {
    for (let i = values.start; i < values.start + values.items; i++) if (name(i) === at) return i;
    return null;
  }

  /** Filter and sort anew; `at` is the item to stay on, if it is still there. */
  async function apply(at) {
    if (state.search) await data.texts();
    kept = KARAT.filter.select(data, state, values);
    summary.textContent = `${count(kept.length)} of ${count(values.items)} shown`;
    inner.style.height = `${kept.length * ROW}px`;
    current = kept.length ? Math.max(0, at === null ? 0 : kept.indexOf(at)) : -1;
    if (current < 0) {
      state.at = "";
      rows();
      KARAT.viewer.nothing("No sample fits these filters. Clear some of them to see more.");
      KARAT.address.write("samples", state, defaults());
    } else await go(0);
  }

  async function go(step) {
    if (current < 0) return;
    current = Math.min(kept.length - 1, Math.max(0, current + step));
    const top = current * ROW;
    if (top < list.scrollTop) list.scrollTop = top;
    else if (top + ROW > list.scrollTop + list.clientHeight) list.scrollTop = top + ROW - list.clientHeight;
    rows();
    const item = kept[current];
    await data.text(data.item.sample[item]);
    if (kept[current] !== item) return; // the reader has gone on
    state.at = name(item);
    KARAT.address.write("samples", state, defaults());
    KARAT.viewer.show(data, item, state, values, current, kept.length, go, link).catch((error) => KARAT.viewer.nothing(error.message));
    if (step) say(`Sample ${current + 1} of ${kept.length}`);
  }

  /** A cell of the models side by side, and whether they stand so, belong to the address. */
  function link(cell, layout = state.layout) {
    const turned = (layout ?? "") !== (state.layout ?? "");
    Object.assign(state, { cell, layout });
    KARAT.address.write("samples", state, defaults());
    if (turned) go(0);
  }

  function arrows(event) {
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 8, PageUp: -8, Home: -Infinity, End: Infinity }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    go(step === -Infinity ? -current : step === Infinity ? kept.length - 1 - current : step);
  }

  /** Draw the rows in view and a few around them. */
  function rows() {
    const first = Math.max(0, Math.floor(list.scrollTop / ROW) - 4);
    const last = Math.min(kept.length, Math.ceil((list.scrollTop + (list.clientHeight || 600)) / ROW) + 4);
    const wanted = kept.slice(first, last).filter((i) => data.sample.id[data.item.sample[i]] === undefined);
    if (wanted.length) Promise.all(wanted.map((i) => data.text(data.item.sample[i]))).then(rows);
    const e = data.explainers.indexOf(state.explainer);
    const drawn = [];
    for (let p = first; p < last; p++) drawn.push(row(p, kept[p], e));
    inner.replaceChildren(...drawn);
    if (current >= first && current < last) list.setAttribute("aria-activedescendant", `row${current}`);
    else list.removeAttribute("aria-activedescendant");
  }

  function row(p, i, e) {
    const s = data.item.sample[i];
    const value = e < 0 ? null : KARAT.filter.at(values, e, i);
    const tick = { 0: "✗", 1: "✓" }[data.item.correct[i]] ?? "";
    const thumb = el("span", { class: "thumb" });
    data.scene(s).then((scene) => {
      if (scene) thumb.replaceChildren(el("img", { src: scene.image, alt: "", loading: "lazy" }));
    }, () => {});
    return el("div", {
      class: "row", id: `row${p}`, role: "option", "aria-selected": p === current ? "true" : "false", "aria-setsize": kept.length, "aria-posinset": p + 1,
      style: { top: `${p * ROW}px` }, onclick: () => go(p - current || 0),
    }, thumb, el("span", { class: "what" }, el("span", { class: "q", dir: "auto" }, data.sample.question[s] || data.sample.id[s] || "…"),
      el("span", { class: "sub" }, `${tick} `, el("bdi", null, data.item.answer.at(i) ?? ""), " · ", el("bdi", null, data.item.model.at(i)))), el("span", { class: "number" }, score(value)));
  }

  return { open, go, focusSearch: () => { search?.field.focus(); search?.field.select(); } };
})();
