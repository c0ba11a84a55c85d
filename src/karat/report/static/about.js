// This run: what it was made with, so that it can be made again.
"use strict";
KARAT.about = (() => {
  const { el } = KARAT.dom;
  const { cite, place } = KARAT.sources;
  const page = document.getElementById("page-about");

  const show = (value) => (value === null || typeof value !== "object" ? String(value) : JSON.stringify(value));
  function facts(pairs) {
    return el("dl", null, pairs.filter(([, value]) => value !== undefined && value !== "").flatMap(([key, value]) => [el("dt", null, key), el("dd", { dir: "auto" }, value)]));
  }
  const list = (entries) => el("ul", null, Object.entries(entries || {}).map(([name, value]) => el("li", null, el("bdi", null, name), " ", el("code", null, show(value)))));

  function run({ name, spec, manifest }) {
    return el("section", { "aria-label": name },
      el("h2", { dir: "auto" }, name),
      facts([
        ["Command", manifest.command && el("code", null, manifest.command)], ["Seed", manifest.seed], ["Models and their revision", list(manifest.models)],
        ["Datasets and their revision", list(manifest.datasets)], ["Versions", list(manifest.versions)], ["Machine", manifest.hardware && list(manifest.hardware)],
      ]),
      el("details", null, el("summary", null, "The whole spec"), el("pre", { tabindex: "0" }, JSON.stringify(spec, null, 2))));
  }

  function scores() {
    const columns = [
      { title: "Score", key: true, text: (m) => m.name, sort: (m) => m.name }, { title: "Protocol", text: (m) => KARAT.core.plain[m.protocol], sort: (m) => m.protocol },
      { title: "What it is", text: (m) => m.summary }, { title: "Better", text: (m) => (m.direction === "none" ? "–" : m.direction) },
      { title: "Floor", text: (m) => m.floor }, { title: "Reference", text: (m) => m.ceiling }, { title: "Source", text: (m) => m.citation, cell: (m) => cite(m.citation) }, { title: "Departures", text: (m) => m.departures },
    ];
    const told = columns.filter((column) => KARAT.core.metrics.some((m) => column.text(m)));
    const table = KARAT.table({ caption: "The scores of this report", name: "scores", columns: told, rows: KARAT.core.metrics });
    return el("section", { "aria-label": "Scores" }, el("div", { class: "bar" }, el("h2", null, "Scores"), table.menu), table.node);
  }

  function explainers() {
    const columns = [
      { title: "Explainer", key: true, text: (e) => e.name, cell: (e) => el("bdi", null, e.name), sort: (e) => e.name }, { title: "What it is", text: (e) => e.summary },
      { title: "Source", text: (e) => e.citation, cell: (e) => cite(e.citation) },
    ];
    const table = KARAT.table({ caption: "The explainers of this report", name: "explainers", columns, rows: KARAT.core.about.explainers });
    return el("section", { "aria-label": "Explainers" }, el("div", { class: "bar" }, el("h2", null, "Explainers"), table.menu), table.node);
  }

  function references() {
    const entries = Object.entries(KARAT.core.about.sources);
    if (!entries.length) return "";
    const texts = new Map();
    for (const [short, text] of entries) texts.set(text, [...(texts.get(text) || []), short]);
    const surname = (text) => text.split(/,| and | et al|\. /)[0].split(" ").pop();
    const sorted = [...texts].sort((a, b) => surname(a[0]).localeCompare(surname(b[0])));
    return el("section", { "aria-label": "References" }, el("h2", null, "References"),
      el("ul", { class: "references" }, sorted.map(([text, shorts]) => el("li", { id: place(shorts[0]), tabindex: "-1" }, text, shorts.some((s) => /^[a-z]+\d{4}$/.test(s)) ? [" ", el("code", null, shorts.join(", "))] : null))));
  }

  const METHOD = [
    "Every row is one sample, one explainer, one score. A row without a value keeps its reason: a failure went wrong, a row that is not applicable has no answer by definition. Neither is ever counted as 0.",
    "Means are over rows that have a value. Intervals are 95 % percentile intervals of 1,000 bootstrap draws of whole samples; all explainers see the same draws, so ranks and differences are paired.",
    "Noise is control/random, the oracle is control/oracle: the truth about the model's own mechanism. It is a reference, and for some scores not the highest value there is.",
    "An explainer is called first only where its rank interval is 1 alone, and said to beat noise only where the paired interval of the difference excludes zero.",
    "Maps are kept at no more than 64 cells a side and scaled to their own largest value: compare where they point, not how strongly.",
  ];

  function open(params) {
    page.replaceChildren(page.querySelector("h1"), ...KARAT.core.about.runs.map(run), scores(), explainers(),
      el("section", { "aria-label": "How to read this" }, el("h2", null, "How to read this"), METHOD.map((text) => el("p", { class: "method" }, text))),
      references(), el("p", { class: "note" }, `Made with Karat ${KARAT.core.about.version}.`));
    const entry = params.at ? document.getElementById(params.at) : null;
    entry?.scrollIntoView({ block: "center" });
    entry?.focus({ preventScroll: true });
  }

  return { open };
})();
