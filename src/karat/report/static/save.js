// Tables as CSV, LaTeX and Markdown; figures as SVG and PNG. Made here, offline, from what is on the screen.
"use strict";
KARAT.save = (() => {
  const { el } = KARAT.dom;

  function download(name, data, type) {
    const url = URL.createObjectURL(data instanceof Blob ? data : new Blob([data], { type }));
    const link = el("a", { href: url, download: name });
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(url), 10000);
  }

  // A cell that starts with = + - @ would be run as a formula by spreadsheets; numbers are left alone.
  const guarded = (text) => (/^[=+\-@\t\r]/.test(text) && Number.isNaN(Number(text)) ? `'${text}` : text);
  const quoted = (text) => (/[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const csv = ({ heads, rows }) => [heads, ...rows].map((row) => row.map((v) => quoted(guarded(String(v)))).join(",")).join("\r\n") + "\r\n";

  const TEX = { "\\": "\\textbackslash{}", "&": "\\&", "%": "\\%", $: "\\$", "#": "\\#", _: "\\_", "{": "\\{", "}": "\\}", "~": "\\textasciitilde{}", "^": "\\textasciicircum{}", "–": "--", "−": "$-$", "<": "\\textless{}", ">": "\\textgreater{}" };
  const escaped = (text) => String(text).replace(/[\\&%$#_{}~^–−<>]/g, (c) => TEX[c]);
  function latex({ heads, rows, numeric, caption }) {
    const line = (row) => `  ${row.map(escaped).join(" & ")} \\\\`;
    return [
      "% needs \\usepackage{booktabs}", "\\begin{table}", "  \\centering", `  \\caption{${escaped(caption)}}`,
      `  \\begin{tabular}{${numeric.map((n) => (n ? "r" : "l")).join("")}}`, "  \\toprule", line(heads), "  \\midrule",
      ...rows.map(line), "  \\bottomrule", "  \\end{tabular}", "\\end{table}", "",
    ].join("\n");
  }

  const piped = (text) => String(text).replace(/[\\|<>&*_`\[\]]/g, (c) => `\\${c}`).replace(/\s+/g, " ");
  function markdown({ heads, rows, numeric }) {
    const line = (row) => `| ${row.map(piped).join(" | ")} |`;
    return [line(heads), `| ${numeric.map((n) => (n ? "---:" : "---")).join(" | ")} |`, ...rows.map(line), ""].join("\n");
  }

  // The light palette of style.css: what a saved figure is drawn in, whatever the page looks like.
  const INKS = { s0: "#3566b8", s1: "#c4591c", s2: "#1f8a6d", s3: "#a14a94", s4: "#8a7a12", s5: "#2b8cbe", s6: "#b0343c", s7: "#7a5230", grey: "#777777", "gold-fill": "#c4931a" };

  /** A figure as a file that stands alone: sizes, colours and fonts written out. */
  function svgText(node) {
    const copy = node.cloneNode(true);
    const box = node.viewBox.baseVal;
    for (const part of copy.querySelectorAll("*")) {
      part.removeAttribute("class");
      for (const name of ["fill", "stroke"]) {
        const ink = /^var\(--([\w-]+)\)$/.exec(part.getAttribute(name) ?? "");
        if (ink) part.setAttribute(name, INKS[ink[1]]);
      }
    }
    copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
    copy.setAttribute("width", box.width);
    copy.setAttribute("height", box.height);
    copy.setAttribute("style", "color:#1d1c1a;background:#fff");
    copy.removeAttribute("class");
    return new XMLSerializer().serializeToString(copy);
  }

  async function png(node, scale = 2) {
    const box = node.viewBox.baseVal;
    const image = new Image();
    image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svgText(node))}`;
    await image.decode();
    const canvas = el("canvas", { width: box.width * scale, height: box.height * scale });
    const paint = canvas.getContext("2d");
    paint.fillStyle = "#fff";
    paint.fillRect(0, 0, canvas.width, canvas.height);
    paint.drawImage(image, 0, 0, canvas.width, canvas.height);
    return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
  }

  /** A menu that saves a table (`plain()` gives {heads, rows, numeric, caption}) and, where there is one, a figure. */
  function menu(name, plain, figure, caption = null) {
    const file = (suffix) => `${(typeof name === "function" ? name() : name).replace(/[^\w.-]+/g, "-").slice(0, 80)}.${suffix}`;
    const entries = [];
    if (plain) {
      entries.push(["CSV", () => download(file("csv"), "\ufeff" + csv(plain()), "text/csv;charset=utf-8")]);
      entries.push(["LaTeX", () => download(file("tex"), latex(plain()), "text/plain;charset=utf-8")]);
      entries.push(["Markdown", () => download(file("md"), markdown(plain()), "text/markdown;charset=utf-8")]);
    }
    if (figure) {
      entries.push(["SVG", () => download(file("svg"), svgText(figure()), "image/svg+xml;charset=utf-8")]);
      entries.push(["PNG", async () => download(file("png"), await png(figure()))]);
    }
    if (caption) {
      entries.push(["Caption", async () => {
        try {
          await navigator.clipboard.writeText(caption());
          KARAT.dom.say("The caption is copied.");
        } catch { // pages from disk may not write to the clipboard
          download(file("txt"), caption(), "text/plain;charset=utf-8");
        }
      }]);
    }
    const box = el("details", { class: "menu" }, el("summary", null, "Export"));
    const done = (act) => async () => {
      box.open = false;
      await act();
    };
    box.append(el("div", { class: "choices" }, entries.map(([text, act]) => el("button", { type: "button", onclick: done(act) }, text))));
    return box;
  }

  document.addEventListener("click", (event) => {
    for (const open of document.querySelectorAll("details.menu[open]")) if (!open.contains(event.target)) open.open = false;
  });

  return { csv, latex, markdown, svgText, png, menu };
})();
