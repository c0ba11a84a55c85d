// The sample browser: filters and a list that draws only the rows in view, beside the viewer.
"use strict";
KARAT.browser = (() => {
  const { el, choose, input, say } = KARAT.dom;
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
      id: raw.sample.id, dataset: column(raw.sample.dataset), question: raw.sample.question, truth: column(raw.sample.truth),
      meta: Object.fromEntries(Object.entries(raw.sample.meta).map(([key, coded]) => [key, column(coded)])),
    };
    const texts = sample.id.map((id, s) => `${id}\n${sample.question[s] ?? ""}`.toLocaleLowerCase());
    sample.search = (s) => texts[s];
    const item = { protocol: column(raw.item.protocol), model: column(raw.item.model), answer: column(raw.item.answer) };
    for (const key of ["sample", "correct", "part", "disagreement", "probability"]) item[key] = unpack(raw.item[key]);
    data = { item, sample, explainers: core.browser.explainers, scenes: core.browser.scenes, problems: core.browser.problems };
  }

  async function scores() {
    const k = core.metrics.findIndex((m) => m.protocol === state.protocol && m.name === state.metric);
    const raw = await KARAT.need(`values-${k}`);
    const [rows, items] = raw.values.shape;
    values = { start: raw.start, rows, items, values: KARAT.unpack(raw.values), codes: KARAT.unpack(raw.codes), reasons: raw.reasons };
  }

  const defaults = () => {
    const protocol = Object.keys(core.protocols)[0];
    return { protocol, metric: core.chief[protocol].metric, explainer: data.explainers.find((e) => !e.startsWith("control/")) ?? data.explainers[0], sort: "" };
  };

  async function open(params) {
    await load();
    state = { ...defaults(), ...params };
    if (!(state.protocol in core.protocols)) state.protocol = defaults().protocol;
    if (!core.metrics.some((m) => m.protocol === state.protocol && m.name === state.metric)) state.metric = core.chief[state.protocol].metric;
    await scores();
    build();
    apply(state.at);
  }

  function build() {
    const title = page.querySelector("h1");
    const set = (key) => async (value) => {
      state[key] = value;
      if (key === "protocol") state.metric = core.chief[value].metric;
      if (key === "protocol" || key === "metric") await scores();
      if (key === "protocol") build();
      apply(currentId());
    };
    const pick = (label, key, names, any) => choose(label, [...(any ? [["", any]] : []), ...names.map((n) => (Array.isArray(n) ? n : [n, n]))], state[key] ?? "", set(key)).node;
    const metrics = core.metrics.filter((m) => m.protocol === state.protocol).map((m) => m.name);
    const metas = Object.entries(data.sample.meta).filter(([, c]) => c.values.length > 1 && c.values.length <= 40);
    const protocols = Object.keys(core.protocols);
    search = input("Search", { type: "search", value: state.search ?? "", placeholder: "question or id", "aria-keyshortcuts": "/" }, set("search"));
    const more = [
      protocols.length > 1 ? pick("Protocol", "protocol", protocols) : null,
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
    const reset = el("button", { type: "button", class: "quiet", onclick: () => { const { at } = { at: currentId() }; state = { ...defaults(), at }; KARAT.address.write("samples", state, defaults()); open(state); } }, "Clear");
    const wide = matchMedia("(min-width: 56rem)").matches;
    page.replaceChildren(title, el("div", { class: "browser" },
      el("section", { class: "side", "aria-label": "Filter and list" },
        search.node, pick("Sort by", "sort", sorts, "order of the dataset"),
        el("details", { class: "filters", open: wide && more.length < 9 }, el("summary", null, "Filters"), el("div", { class: "fields" }, more, reset)), summary, list),
      KARAT.viewer.node));
  }

  const currentId = () => (current >= 0 && kept[current] !== undefined ? name(kept[current]) : state.at);
  // A sample may occur once per model: both name an item.
  const name = (i) => `${data.item.model.at(i)}|${data.sample.id[data.item.sample[i]]}`;

  function apply(at) {
    kept = KARAT.filter.select(data, state, values);
    summary.textContent = `${count(kept.length)} of ${count(values.items)} shown`;
    inner.style.height = `${kept.length * ROW}px`;
    current = kept.length ? Math.max(0, at ? kept.findIndex((i) => name(i) === at) : 0) : -1;
    if (current < 0) {
      state.at = "";
      rows();
      KARAT.viewer.nothing("No sample fits these filters. Clear some of them to see more.");
      KARAT.address.write("samples", state, defaults());
    } else go(0);
  }

  function go(step) {
    if (current < 0) return;
    current = Math.min(kept.length - 1, Math.max(0, current + step));
    const top = current * ROW;
    if (top < list.scrollTop) list.scrollTop = top;
    else if (top + ROW > list.scrollTop + list.clientHeight) list.scrollTop = top + ROW - list.clientHeight;
    rows();
    state.at = name(kept[current]);
    KARAT.address.write("samples", state, defaults());
    KARAT.viewer.show(data, kept[current], state, values, current, kept.length, go).catch((error) => KARAT.viewer.nothing(error.message));
    if (step) say(`Sample ${current + 1} of ${kept.length}`);
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
    KARAT.need(`scenes-${Math.floor(s / data.scenes)}`).then((scenes) => {
      if (scenes[s]) thumb.replaceChildren(el("img", { src: scenes[s].image, alt: "", loading: "lazy" }));
    }, () => {});
    return el("div", {
      class: "row", id: `row${p}`, role: "option", "aria-selected": p === current ? "true" : "false", "aria-setsize": kept.length, "aria-posinset": p + 1,
      style: { top: `${p * ROW}px` }, onclick: () => go(p - current || 0),
    }, thumb, el("span", { class: "what" }, el("span", { class: "q", dir: "auto" }, data.sample.question[s] || data.sample.id[s]),
      el("span", { class: "sub" }, `${tick} `, el("bdi", null, data.item.answer.at(i) ?? ""), " · ", el("bdi", null, data.item.model.at(i)))), el("span", { class: "number" }, score(value)));
  }

  return { open, go, focusSearch: () => { search?.field.focus(); search?.field.select(); } };
})();
