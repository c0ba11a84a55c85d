// Slices: means within each bucket, mode, model..., as a figure and as a table.
"use strict";
KARAT.slices = (() => {
  const { el, choose, redraw } = KARAT.dom;
  const { score, count } = KARAT.format;
  const core = KARAT.core;
  const page = document.getElementById("page-slices");
  let all = []; // tables of the score that is shown
  let state;

  async function open(params) {
    const title = page.querySelector("h1");
    if (!Object.keys(core.slices).length) {
      page.replaceChildren(title, el("p", { class: "lede" }, "Nothing to slice by: one model, one dataset and no other property with two to forty values."));
      return;
    }
    state = { ...defaults(), ...params };
    repair();
    all = await KARAT.need(`slices-${core.metrics.findIndex((m) => m.protocol === state.protocol && m.name === state.metric)}`);
    redraw(page, title, el("p", { class: "lede" }, "Does the picture change from one kind of sample to another?"), fields(), content());
  }

  const defaults = () => {
    const protocol = Object.keys(core.protocols).find((p) => p in core.slices);
    const first = core.slices[protocol].find((s) => s.model === core.chief[protocol].model || s.key === "model");
    return { protocol, metric: core.chief[protocol].metric, key: first.key, model: first.model };
  };
  const mine = () => core.slices[state.protocol] ?? [];
  const keys = () => [...new Set(mine().map((s) => s.key))];
  const models = () => [...new Set(mine().filter((s) => s.key === state.key).map((s) => s.model))];
  const metrics = () => core.metrics.filter((m) => m.protocol === state.protocol).map((m) => m.name);

  function repair() {
    if (!keys().length) state.protocol = defaults().protocol;
    if (!metrics().includes(state.metric)) state.metric = core.chief[state.protocol].metric;
    if (!keys().includes(state.key)) state.key = keys()[0];
    if (!models().includes(state.model)) state.model = models()[0];
  }

  function fields() {
    const set = (name) => (value) => {
      state[name] = value;
      repair();
      KARAT.address.write("slices", state, defaults());
      open(state);
    };
    const same = (names) => names.map((n) => [n, n]);
    const protocols = Object.keys(core.slices);
    return el("div", { class: "fields" },
      protocols.length > 1 ? choose("Protocol", protocols.map((p) => [p, core.plain[p]]), state.protocol, set("protocol")).node : null,
      choose("Score", same(metrics()), state.metric, set("metric")).node, choose("Slice by", same(keys()), state.key, set("key")).node,
      models().length > 1 ? choose("Model", same(models()), state.model, set("model")).node : null);
  }

  function content() {
    const slice = all.find((s) => ["protocol", "metric", "key", "model"].every((k) => s[k] === state[k]));
    if (!slice) return el("p", null, "No rows for this choice.");
    const figure = KARAT.figures.sliced(slice);
    const wide = Math.min(KARAT.plot.WIDEST, page.clientWidth - 64);
    const range = KARAT.chart.extent(slice.mean.flat(), 0);
    const shade = (value) => (value === null ? null : (value - range[0]) / (range[1] - range[0]));
    const columns = [
      { title: "Explainer", key: true, text: (r) => r.name, cell: (r) => el("bdi", null, r.name), sort: (r) => r.name },
      ...slice.values.map((value, v) => ({
        title: value, numeric: true, text: (r) => score(r.mean[v]), raw: (r) => r.mean[v] ?? "", sort: (r) => r.mean[v],
        cell: (r) => el("span", { class: "shade", style: { "--share": shade(r.mean[v]) ?? 0 }, title: r.mean[v] === null ? "no score" : `${score(r.low[v])} to ${score(r.high[v])}, ${count(r.scored[v])} rows` }, score(r.mean[v])),
      })),
    ];
    const pick = (rows, i) => rows.map((row) => row[i]);
    const rows = KARAT.figures.order(slice).map(({ name, i }) => ({ name, mean: pick(slice.mean, i), low: pick(slice.low, i), high: pick(slice.high, i), scored: pick(slice.scored, i) }));
    const name = `${slice.metric}-by-${slice.key}`;
    const table = KARAT.table({ caption: `Mean ${slice.metric} by ${slice.key}`, name, columns, rows, figure: () => KARAT.plot.draw(figure, KARAT.plot.WIDEST), mark: (r) => (KARAT.control(r.name) ? "control" : null) });
    const samples = slice.values.map((v, i) => `${v}: ${count(slice.samples[i])}`).join(", ");
    return el("div", null, el("div", { class: "bar" }, el("h2", { dir: "auto" }, `${slice.metric} by ${slice.key}`), table.menu),
      el("div", { class: "plot" }, KARAT.plot.draw(figure, Math.max(320, wide))), table.node,
      el("p", { class: "note", dir: "auto" }, `Bars are 95 % bootstrap intervals over the samples of the slice. Samples: ${samples}.`));
  }

  return { open };
})();
