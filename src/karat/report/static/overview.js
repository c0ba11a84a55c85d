// The leaderboard: one score at a time, every explainer between noise and the oracle.
"use strict";
KARAT.overview = (() => {
  const { el, choose, redraw } = KARAT.dom;
  const { score, interval, percent, count, cost, seconds, rank, DASH } = KARAT.format;
  const core = KARAT.core;
  const place = document.getElementById("leaderboard");
  const out = el("div");
  let state;
  let boards = []; // of the protocol that is shown

  const start = () => {
    const protocol = Object.keys(core.protocols)[0];
    return { protocol, ...core.chief[protocol], dataset: "" };
  };
  const metrics = (protocol) => core.metrics.filter((m) => m.protocol === protocol);
  const scopes = (key) => [...new Set(boards.map((b) => b[key]))].filter(Boolean);
  const find = () => boards.find((b) => ["protocol", "metric", "model", "dataset"].every((key) => b[key] === state[key]));

  async function open(params) {
    const first = start();
    state = { ...first, ...params };
    if (!(state.protocol in core.protocols)) state = first;
    boards = await KARAT.need(`boards-${Object.keys(core.protocols).indexOf(state.protocol)}`);
    if (!metrics(state.protocol).some((m) => m.name === state.metric)) state.metric = core.chief[state.protocol].metric;
    if (!find()) Object.assign(state, { model: core.chief[state.protocol].model, dataset: "" });
    KARAT.front.open();
    redraw(place, place.querySelector("h2"), fields(), out);
    draw();
  }

  function fields() {
    const set = (key) => (value) => {
      state[key] = value;
      if (key === "protocol") Object.assign(state, { ...core.chief[value], dataset: "" });
      KARAT.address.write("overview", state, start());
      if (key === "protocol") open(state);
      else draw();
    };
    // Where models reason differently, their average comes last: it describes none of them.
    const all = (what, names) => {
      const each = names.map((n) => [n, n]);
      const whole = ["", `All ${names.length} ${what}`];
      return what === "models" && core.chief[state.protocol].model ? [...each, whole] : [whole, ...each];
    };
    const protocols = Object.keys(core.protocols);
    const row = [];
    if (protocols.length > 1) row.push(choose("Protocol", protocols.map((p) => [p, core.plain[p]]), state.protocol, set("protocol")).node);
    row.push(choose("Score", metrics(state.protocol).map((m) => [m.name, m.name]), state.metric, set("metric")).node);
    for (const [key, what] of [["model", "models"], ["dataset", "datasets"]]) {
      const names = scopes(key);
      if (names.length) row.push(choose(key === "model" ? "Model" : "Dataset", all(what, names), state[key], set(key)).node);
    }
    return el("div", { class: "fields" }, row, parameters(state.protocol));
  }

  function draw() {
    const board = find();
    const metric = core.metrics.find((m) => m.protocol === state.protocol && m.name === state.metric);
    if (!board) {
      out.replaceChildren(el("p", null, "No rows for this choice."));
      return;
    }
    const table = KARAT.table({
      caption: `${board.metric} by explainer, ${board.samples} samples`, name: `leaderboard-${board.protocol}-${board.metric}`,
      columns: columns(board), rows: board.rows, figure: () => KARAT.plot.draw(KARAT.figures.forest(board), KARAT.plot.WIDEST),
      mark: (row) => (row.control ? "control" : null),
    });
    const directed = boards.filter((b) => b.better && ["protocol", "model", "dataset"].every((key) => b[key] === board[key]) && b.rows.some((r) => r.rank[0] !== null));
    const figures = [];
    const cost = KARAT.figures.cost(board);
    if (cost) figures.push([cost, `cost-${board.metric}`]);
    if (directed.length > 1) figures.push([KARAT.figures.ranks(directed), `ranks-${board.protocol}`]);
    out.replaceChildren(
      el("div", { class: "about" }, chief(board) ? null : el("p", { class: "says", dir: "auto" }, board.verdict), card(metric)),
      el("div", { class: "bar" }, legend(board), table.menu), table.node, foot(board),
      ...figures.map(([figure, file]) => el("section", { class: "chart-figure", "aria-label": figure.title }, KARAT.plot.block(figure, file, "h3", place.clientWidth))));
  }

  /** Whether the sentence on top of the page is this board's already. */
  const chief = (board) => core.chief[board.protocol].metric === board.metric && core.chief[board.protocol].model === board.model && !board.dataset;

  function card(metric) {
    const better = { higher: "Higher is better.", lower: "Lower is better.", none: "Neither higher nor lower is better by itself." }[metric.direction];
    const stop = (text) => (text.endsWith(".") ? text : `${text}.`);
    return el("p", { class: "note", dir: "auto" }, metric.summary ? `${stop(metric.summary[0].toUpperCase() + metric.summary.slice(1))} ` : "", better,
      metric.citation ? [" Source: ", KARAT.sources.cite(metric.citation), metric.citation.endsWith(".") ? "" : "."] : "", metric.departures ? ` Departs from it: ${stop(metric.departures)}` : "");
  }

  function legend(board) {
    const parts = [el("span", { class: "key dotkey" }, "mean and 95 % interval")];
    if (board.floor !== null) parts.push(el("span", { class: "key floorkey" }, `noise ${score(board.floor)}`));
    if (board.reference !== null) parts.push(el("span", { class: "key oraclekey" }, `oracle ${score(board.reference)}`));
    return el("div", { class: "legend" }, parts);
  }

  function columns(board) {
    const [low, high] = KARAT.chart.extent(board.rows.flatMap((r) => [r.low, r.high, r.mean]).concat(board.floor, board.reference), 0.04);
    const at = (v) => `${(100 * (v - low)) / (high - low)}%`;
    const ranked = board.rows.some((row) => row.rank[0] !== null);
    return [
      ranked && { title: "Rank", numeric: true, text: (r) => rank(r.rank), sort: (r) => r.rank[0] },
      { title: "Explainer", key: true, text: (r) => r.explainer, cell: (r) => name(r), sort: (r) => r.explainer },
      { title: "Between noise and oracle", picture: true, wide: true, text: () => "", cell: (r) => track(r, board, at) },
      { title: "Mean", numeric: true, text: (r) => score(r.mean), raw: (r) => r.mean ?? "", sort: (r) => r.mean },
      { title: "95 % interval", numeric: true, narrow: true, text: (r) => interval(r.low, r.high) || DASH },
      board.rows.some((row) => row.way !== null) && { title: "Of the way", numeric: true, narrow: true, text: (r) => percent(r.way), sort: (r) => r.way },
      { title: "Scored", numeric: true, text: (r) => `${count(r.scored)}/${count(r.asked)}`, cell: (r) => coverage(r), sort: (r) => r.scored / r.asked },
      { title: "Passes", numeric: true, narrow: true, text: (r) => cost(r.passes), raw: (r) => r.passes ?? "", sort: (r) => r.passes },
      board.rows.some((r) => r.seconds !== null) && { title: "Time", numeric: true, narrow: true, text: (r) => seconds(r.seconds), raw: (r) => r.seconds ?? "", sort: (r) => r.seconds },
    ].filter(Boolean);
  }

  function name(row) {
    const [family, ...rest] = row.explainer.split("/");
    const plain = rest.length && /^\w+$/.test(family) ? [el("span", { class: "family" }, `${family}/`), el("wbr"), rest.join("/")] : row.explainer;
    return el("bdi", null, plain, row.beats === false && !row.control ? el("span", { class: "flag" }, "not above noise") : null);
  }

  function track(row, board, at) {
    if (row.mean === null) return el("span", { class: "track empty" }, el("span", { class: "sr" }, "no score"));
    const line = (value, kind) => (value === null ? null : el("i", { class: kind, style: { left: at(value) } }));
    const range = row.low === null ? null : el("i", { class: "range", style: { left: at(row.low), right: `calc(100% - ${at(row.high)})` } });
    const label = row.way === null ? `mean ${score(row.mean)}` : `${percent(row.way)} of the way from noise to oracle`;
    return el("span", { class: "track", role: "img", "aria-label": label }, line(board.floor, "floor"), line(board.reference, "oracle"), range, line(row.mean, "dot"));
  }

  function coverage(row) {
    const missing = [row.failed && `${count(row.failed)} failed`, row.absent && `${count(row.absent)} not applicable`].filter(Boolean);
    return [`${count(row.scored)}/${count(row.asked)}`, missing.length ? el("span", { class: row.failed ? "sub wrong" : "sub" }, missing.join(", ")) : null];
  }

  function foot(board) {
    const work = core.work.filter((w) => w.protocol === board.protocol && (!board.model || w.model === board.model) && (!board.dataset || w.dataset === board.dataset));
    const spent = work.reduce((sum, w) => sum + w.seconds, 0);
    const pairs = work.reduce((sum, w) => sum + w.explanations, 0);
    const shared = board.rows.every((r) => r.seconds === null) && spent > 0;
    return el("p", { class: "note" },
      `Rank intervals and intervals of means come from 1,000 bootstrap draws of whole samples, the same draws for every explainer. Passes are forward passes a sample.`,
      shared ? ` Explainers shared their passes, so time is known only together: ${seconds(spent)} of work for ${count(pairs)} explanations, scores included.` : "");
  }

  const parameters = (protocol) => (core.plain[protocol] === protocol ? null : el("details", { class: "facts" }, el("summary", null, "Parameters"), el("code", null, protocol)));

  return { open };
})();
