// Findings: what each protocol concluded, section by section: sentences, figures and the table they rest on.
"use strict";
KARAT.findings = (() => {
  const { el, choose, said, prose, redraw } = KARAT.dom;
  const core = KARAT.core;
  const page = document.getElementById("page-findings");
  const SHOWN = 5; // sentences before the rest is folded away
  let state;

  async function open(params) {
    const title = page.querySelector("h1");
    const names = core.findings.map((one) => one.protocol);
    if (!names.length) {
      page.replaceChildren(title, el("p", { class: "lede" }, "No protocol has concluded anything yet: findings are written when a run is complete. The leaderboard and the slices show what is there."));
      return;
    }
    state = { protocol: names.includes(params.protocol) ? params.protocol : names[0], at: params.at ?? "" };
    const sections = await KARAT.need(core.findings.find((one) => one.protocol === state.protocol).chunk);
    let number = 0;
    const numbered = sections.map((section) => ({ ...section, findings: section.findings.map((finding) => ({ ...finding, id: `finding-${++number}` })) }));
    const pick = names.length > 1 ? choose("Protocol", names.map((n) => [n, core.plain[n]]), state.protocol, (value) => { KARAT.address.write("findings", { protocol: value }); open({ protocol: value }); }).node : null;
    const question = core.protocols[state.protocol];
    redraw(page, title, el("p", { class: "lede", dir: "auto" }, question ? question[0].toUpperCase() + question.slice(1) : state.protocol), pick ? el("div", { class: "fields" }, pick) : "",
      number > 3 ? contents(numbered) : "");
    // Drawn in place: figures take the width they find.
    for (const section of numbered) {
      if (section.title) page.append(el("h2", { class: "section", dir: "auto" }, section.title));
      section.findings.forEach((finding) => show(finding, section.title ? "h3" : "h2"));
    }
    if (state.at) document.getElementById(state.at)?.scrollIntoView();
  }

  function contents(sections) {
    const jump = (finding) => el("li", null, el("a", { href: `#findings?protocol=${encodeURIComponent(state.protocol)}&at=${finding.id}`, onclick: (event) => { event.preventDefault(); KARAT.address.write("findings", { protocol: state.protocol, at: finding.id }); const place = document.getElementById(finding.id); place.scrollIntoView({ behavior: "smooth" }); place.focus({ preventScroll: true }); } }, said(finding.title)));
    return el("nav", { class: "contents", "aria-label": "Findings" }, sections.map((section) => el("div", null, section.title ? el("p", { dir: "auto" }, section.title) : null, el("ol", null, section.findings.map(jump)))));
  }

  function show(finding, level) {
    const file = `${state.protocol}-${finding.title}`;
    const lower = level === "h2" ? "h3" : "h4";
    const node = el("section", { class: "finding", id: finding.id, tabindex: "-1", "aria-label": finding.title });
    page.append(node);
    const table = finding.columns.length && finding.rows.length ? numbers(finding, file) : null;
    node.append(el(level, { dir: "auto" }, finding.title, finding.run ? el("span", { class: "from" }, " · ", said(finding.run)) : null),
      finding.about ? el("p", { class: "note", dir: "auto" }, prose(finding.about)) : "", sentences(finding.sentences));
    const figures = finding.figures.filter((figure) => !KARAT.plot.empty(figure));
    if (figures.length) {
      const plots = el("div", { class: "plots" });
      node.append(plots);
      const column = (plots.clientWidth - 48) / 2;
      const pairs = KARAT.plot.paired(figures);
      figures.forEach((figure, i) => {
        const small = column >= 400 && pairs[i];
        const drawn = KARAT.plot.block(figure, figure.title, lower, small ? column : Math.min(plots.clientWidth, KARAT.plot.WIDEST));
        drawn.classList.toggle("whole", !small);
        plots.append(drawn);
      });
    }
    if (table) node.append(el("details", { class: "numbers", open: !figures.length }, el("summary", null, `The table behind it (${finding.rows.length} rows)`), el("div", { class: "bar" }, el("span"), table.menu), table.node));
  }

  function sentences(all) {
    if (!all.length) return "";
    const item = (text) => el("li", { dir: "auto" }, prose(text));
    const list = el("ul", null, all.slice(0, SHOWN).map(item));
    if (all.length <= SHOWN + 1) return el("ul", null, all.map(item));
    return el("div", null, list, el("details", { class: "more" }, el("summary", null, `${all.length - SHOWN} more`), el("ul", null, all.slice(SHOWN).map(item))));
  }

  function numbers(finding, file) {
    const columns = finding.columns.map((title, i) => {
      const numeric = finding.rows.every((row) => row[i] === null || typeof row[i] === "number") && finding.rows.some((row) => row[i] !== null);
      const write = KARAT.format.alike(finding.rows.map((row) => row[i]));
      return { title, key: i === 0, numeric, text: (row) => write(row[i]), raw: (row) => row[i] ?? "", sort: (row) => row[i], cell: numeric ? null : (row) => (title === "examples" && row[i] ? examples(finding.columns, row, i) : said(write(row[i]))) };
    });
    const table = KARAT.table({ caption: finding.title, name: file, columns, rows: finding.rows, mark: (row) => (row.some((v) => KARAT.control(v)) ? "control" : null) });
    table.node.classList.add("tall");
    return table;
  }

  /** A column called `examples` holds ids of samples: each leads to its maps, under what else the row names. */
  function examples(columns, row, i) {
    const place = columns.flatMap((name, k) => (["model", "dataset", "explainer"].includes(name) ? [[name, row[k]]] : []));
    const link = (id) => el("a", { href: `#samples?${new URLSearchParams([["protocol", state.protocol], ...place, ["search", id]])}` }, said(id));
    return row[i].split(", ").flatMap((id, k) => (k ? [", ", link(id)] : [link(id)]));
  }

  return { open };
})();
