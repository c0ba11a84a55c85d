// This run: what it was made with, so that it can be made again.
"use strict";
ASSAY.about = (() => {
  const { el } = ASSAY.dom;
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
      { title: "Score", key: true, text: (m) => m.name, sort: (m) => m.name }, { title: "Protocol", text: (m) => m.protocol, sort: (m) => m.protocol },
      { title: "What it is", text: (m) => m.summary }, { title: "Better", text: (m) => (m.direction === "none" ? "–" : m.direction) },
      { title: "Floor", text: (m) => m.floor }, { title: "Reference", text: (m) => m.ceiling }, { title: "Source", text: (m) => m.citation }, { title: "Departures", text: (m) => m.departures },
    ];
    const told = columns.filter((column) => ASSAY.core.metrics.some((m) => column.text(m)));
    const table = ASSAY.table({ caption: "The scores of this report", name: "scores", columns: told, rows: ASSAY.core.metrics });
    return el("section", { "aria-label": "Scores" }, el("div", { class: "bar" }, el("h2", null, "Scores"), table.menu), table.node);
  }

  const METHOD = [
    "Every row is one sample, one explainer, one score. A row without a value keeps its reason: a failure went wrong, a row that is not applicable has no answer by definition. Neither is ever counted as 0.",
    "Means are over rows that have a value. Intervals are 95 % percentile intervals of 1,000 bootstrap draws of whole samples; all explainers see the same draws, so ranks and differences are paired.",
    "Noise is control/random, the oracle is control/oracle: the truth about the model's own mechanism. It is a reference, and for some scores not the highest value there is.",
    "An explainer is called first only where its rank interval is 1 alone, and said to beat noise only where the paired interval of the difference excludes zero.",
    "Maps are kept at no more than 64 cells a side and scaled to their own largest value: compare where they point, not how strongly.",
  ];

  function open() {
    page.replaceChildren(page.querySelector("h1"), ...ASSAY.core.about.runs.map(run), scores(),
      el("section", { "aria-label": "How to read this" }, el("h2", null, "How to read this"), METHOD.map((text) => el("p", { class: "method" }, text))),
      el("p", { class: "note" }, `Made with Assay ${ASSAY.core.about.version}.`));
  }

  return { open };
})();
