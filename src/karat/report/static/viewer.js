// One item large: question, answer, and every explainer side by side.
"use strict";
KARAT.viewer = (() => {
  const { el, choose, input, redraw, breakable } = KARAT.dom;
  const { score, DASH } = KARAT.format;
  const { colour } = KARAT;
  const node = el("section", { class: "viewer", "aria-label": "Explanations" });
  const look = { opacity: colour.alpha, map: colour.plain[0], signed: colour.signed[0], smooth: false };
  const hidden = new Set(["distractor", "header"]); // roles switched off: at first those that say least
  let cards = [];
  let rose = true; // whether compasses are drawn
  let scene = null;
  let asked = 0;
  let again = null;
  let together = null; // the models side by side, where they are

  /** Show item `i`; `move(step)` goes on to its neighbours. */
  async function show(data, i, state, values, position, total, move, link) {
    const turn = ++asked;
    const s = data.item.sample[i];
    const chunk = data.item.chunk[i];
    const twins = KARAT.matrix.twins(data, i, values);
    const side = twins.length > 1 && state.layout !== "one";
    const of = async (j) => (data.item.chunk[j] < 0 ? {} : (await KARAT.need(data.maps[data.item.chunk[j]]))[data.item.place[j]] || {});
    const [own, maps, columns] = await Promise.all([data.scene(s), chunk < 0 ? {} : KARAT.need(data.maps[chunk]),
      Promise.all(side ? twins.map(async (item) => ({ item, model: data.item.model.at(item), kept: await of(item) })) : []), data.text(s)]);
    // Hundreds of maps take a moment: the list, which the reader has just filtered, is painted first.
    if (columns.length * data.explainers.length > 60) await new Promise((done) => setTimeout(done, 40));
    if (turn !== asked) return; // the reader has gone on
    scene = own;
    const middle = scene?.compass?.[1];
    if (middle) Object.assign(KARAT.canvas.lens, { x: middle[0] / scene.size[0], y: middle[1] / scene.size[1] });
    const kept = maps[data.item.place[i]] || {};
    again = () => draw(data, i, s, state, values, kept, position, total, move, link, columns, twins.length > 1);
    again();
  }

  function draw(data, i, s, state, values, kept, position, total, move, link, columns, many) {
    together = null;
    if (columns.length) {
      together = KARAT.matrix.build(data, columns, scene, values, look, state, { point, aim, link });
      cards = together.cards;
      KARAT.matrix.build.roles = roles;
      const all = Object.assign({}, ...columns.map((c) => c.kept));
      redraw(node, el("div", null, head(data, i, s, state, position, total, move), tools(all, cards.some((c) => c.rose), state, link, many), problem(data, s, all), together.node));
      together.show();
      style();
      mark();
      node.querySelector("td.linked")?.scrollIntoView({ block: "nearest", inline: "nearest" });
      return;
    }
    const known = data.explainers.map((name, e) => ({ name, e })).filter(({ e }) => values.codes[e * values.items + i - values.start] !== 255 || kept[data.explainers[e]]);
    const ordered = [...known.filter((k) => !KARAT.control(k.name)), ...known.filter((k) => KARAT.control(k.name))];
    cards = ordered.map(({ name, e }) => card(data, name, e, i, s, values, kept[name], KARAT.detail.of(kept[name], data.item.protocol.at(i), state.metric)));
    const plain = scene ? picture(data, s) : null;
    if (plain) cards.unshift(plain);
    const toolbar = tools(kept, cards.some((c) => c.rose), state, link, many);
    redraw(node, el("div", null, head(data, i, s, state, position, total, move), toolbar, problem(data, s, kept), el("div", { class: "cards" }, cards.map((c) => c.node))));
    style();
    mark();
  }

  function head(data, i, s, state, position, total, move) {
    const { item, sample } = data;
    const answer = item.answer.at(i);
    const truth = sample.truth.at(s);
    const step = (by, text, key) => el("button", { type: "button", class: "quiet", onclick: () => move(by), disabled: position + by < 0 || position + by >= total, "aria-keyshortcuts": key }, text);
    const verdict = { 0: ["✗", "wrong"], 1: ["✓", "right"] }[item.correct[i]];
    const facts = [["Model", item.model.at(i)], ["Dataset", sample.dataset.at(s)], ...Object.entries(sample.meta).map(([key, column]) => [key, column.at(s)])].filter(([, v]) => v !== null);
    return el("header", null,
      el("div", { class: "bar" }, el("p", { class: "note" }, `${position + 1} of ${total} · `, el("bdi", null, sample.id[s])), el("div", { class: "steps" }, step(-1, "← Previous", "k"), step(1, "Next →", "j"))),
      el("h2", { class: "asked", dir: "auto" }, question(sample.question[s])),
      el("p", { class: "answer", dir: "auto" }, "Answers ", el("strong", null, el("bdi", null, answer ?? DASH)), sureness(item.probability[i]), truth === null ? null : [", truth is ", el("strong", null, el("bdi", null, truth))],
        verdict ? el("span", { class: `tick ${verdict[1]}` }, ` ${verdict[0]} ${verdict[1]}`) : null),
      el("details", { class: "facts" }, el("summary", null, "Properties"), el("dl", null, facts.flatMap(([key, value]) => [el("dt", null, key), el("dd", { dir: "auto" }, value)]))));
  }

  /** The model's probability of its answer, as a number and as a length. */
  function sureness(p) {
    if (Number.isNaN(p)) return null;
    return el("span", { class: "sure" }, " (probability ", el("span", { class: "gauge", "aria-hidden": "true" }, el("i", { style: { width: `${100 * Math.min(1, Math.max(0, p))}%` } })), ` ${p.toFixed(2)})`);
  }

  /** The question with its phrases underlined in the colours of their roles. */
  function question(text) {
    if (!text) return "No question: the whole image is asked about.";
    const phrases = scene ? [...scene.phrases].filter((p) => !hidden.has(p[2])).sort((a, b) => a[0] - b[0]) : [];
    const parts = [];
    let at = 0;
    for (const [start, end, role] of phrases) {
      if (start < at) continue;
      parts.push(slice(text, at, start), el("span", { class: "phrase", style: { "--role": colour.role(role) }, title: role }, slice(text, start, end)));
      at = end;
    }
    return [...parts, slice(text, at)];
  }

  // Python counts characters, JavaScript counts UTF-16 units: spans are in characters.
  const slice = (text, start, end) => Array.from(text).slice(start, end).join("");

  function tools(kept, roses, state, link, many) {
    const signed = Object.values(kept).some((k) => k.map && k.map[2]);
    const named = [...new Set([...(scene ? scene.regions : []).map((r) => r.role), ...(scene ? scene.phrases : []).map((p) => p[2])])];
    const repaint = () => cards.forEach((c) => c.repaint());
    const opacity = input("Opacity", { type: "range", min: 0, max: 1, step: 0.05, value: look.opacity }, (v) => { look.opacity = v; style(); });
    const zoom = input("Zoom", { type: "range", min: 1, max: 12, step: 0.5, value: KARAT.canvas.lens.times, title: "Click a map to choose what to zoom in on" }, (v) => { KARAT.canvas.lens.times = Number(v); style(); });
    const smooth = input("Smooth", { type: "checkbox", checked: look.smooth }, (v) => { look.smooth = v; style(); });
    const maps = choose("Colours", colour.plain.map((n) => [n, n]), look.map, (v) => { look.map = v; repaint(); style(); });
    const both = choose("Signed colours", colour.signed.map((n) => [n, n]), look.signed, (v) => { look.signed = v; repaint(); style(); });
    const marks = named.map((role) => {
      const box = input(role, { type: "checkbox", checked: !hidden.has(role) }, (on) => { if (on) hidden.delete(role); else hidden.add(role); again(); });
      box.node.dataset.role = role;
      box.node.style.setProperty("--role", colour.role(role));
      box.node.classList.add("role");
      return box.node;
    });
    const turn = input("Compass", { type: "checkbox", checked: rose }, (v) => { rose = v; style(); });
    const layout = many ? choose("Models", [["", "side by side"], ["one", "one at a time"]], state.layout ?? "", (v) => link(state.cell ?? "", v)).node : null;
    return el("div", { class: "toolbar", role: "group", "aria-label": "Display" }, layout, opacity.node, maps.node, signed ? both.node : null, zoom.node, smooth.node, roses ? turn.node : null,
      el("div", { class: "scales" }, el("span", { class: "ramp", "data-ramp": "map" }, el("span", null, "0"), el("span", null, "max")), signed ? el("span", { class: "ramp", "data-ramp": "signed" }, el("span", null, "against"), el("span", null, "0"), el("span", null, "for")) : null),
      marks.length ? el("fieldset", { class: "roles" }, el("legend", null, "Ground truth"), marks) : null);
  }

  function problem(data, s, kept) {
    const said = [];
    const why = data.problems[data.sample.dataset.at(s)];
    if (!data.hasPicture(s)) return el("p", { class: "gone" }, `This page holds pictures and maps of ${KARAT.core.browser.pictures} of its ${KARAT.core.browser.samples} samples: make it with --pictures all to have this one too. Its scores are below.`);
    if (!scene) said.push(`The picture cannot be shown: ${why || "the dataset no longer has this sample"}.`);
    if (!Object.keys(kept).length) said.push("No maps were kept for this sample (keep_maps is off, or the explainers gave none).");
    return said.length ? el("p", { class: "gone", dir: "auto" }, said.join(" ")) : null;
  }

  function picture(data, s) {
    const stage = KARAT.canvas.stage(scene, null, look, "The image with its ground-truth regions", point, aim);
    return { node: el("figure", { class: "card" }, stage.node, el("figcaption", null, el("span", { class: "name" }, "Image"))), repaint() {}, mark: stage.mark, point: stage.point, at() {} };
  }

  function card(data, name, e, i, s, values, kept, detail) {
    const map = kept && kept.map ? KARAT.canvas.decode(kept.map) : null;
    const value = KARAT.filter.at(values, e, i);
    const reason = values.reasons[values.codes[e * values.items + i - values.start] - 1];
    const stage = KARAT.canvas.stage(scene, map, look, map ? `Heatmap of ${name}` : `${name} has no map here`, point, aim);
    const readout = el("span", { class: "readout", "aria-hidden": "true" });
    const words = el("p", { class: "words", dir: "auto" });
    const why = reason ? el("p", { class: reason[0] === "failure" ? "reason wrong" : "reason", dir: "auto" }, `${reason[0] === "failure" ? "Failed" : "Not applicable"}: ${reason[1]}`) : null;
    words.append(...sentence(data.sample.question[s], kept));
    const overlay = KARAT.detail.isCompass(detail) ? KARAT.detail.compass(detail, scene) : null;
    if (overlay) stage.node.append(overlay);
    const drawn = detail && !overlay ? KARAT.detail.curves(detail, (share) => cards.forEach((c) => c.at(share))) : null;
    const alone = kept && kept.scalar !== undefined ? el("p", { class: "reason" }, `one number for the whole sample: ${score(kept.scalar)}`) : null;
    return {
      node: el("figure", { class: `card${map ? "" : " bare"}` }, stage.node, el("figcaption", null, el("span", { class: "name", dir: "auto" }, breakable(name)), el("span", { class: "score" }, readout, value === null ? DASH : score(value))), why, drawn ? drawn.node : null, alone, words),
      rose: Boolean(overlay),
      at(share) { drawn?.at(share); },
      repaint() { stage.repaint(look); },
      mark: stage.mark,
      point(x, y) {
        const found = stage.point(x, y);
        readout.textContent = found === null ? "" : `${found.toFixed(2)} here · `;
      },
    };
  }

  /** The question, each word marked as strongly as its score, in another colour where it speaks against. */
  function sentence(text, kept) {
    if (!text || !kept || !kept.words || !scene) return [];
    const most = Math.max(...kept.words.map(Math.abs)) || 1;
    const parts = [];
    let at = 0;
    scene.words.forEach(([start, end], k) => {
      const share = (kept.words[k] ?? 0) / most;
      parts.push(slice(text, at, start), el("span", { class: share < 0 ? "against" : "for", title: (kept.words[k] ?? 0).toFixed(2), style: { "--share": Math.abs(share).toFixed(3) } }, slice(text, start, end)));
      at = end;
    });
    return [...parts, slice(text, at)];
  }

  /** Magnify around that place. */
  function aim(x, y) {
    Object.assign(KARAT.canvas.lens, { x, y });
    style();
  }
  function point(x, y) {
    cards.forEach((c) => c.point(x, y));
  }
  const roles = () => new Set((scene ? scene.regions : []).map((r) => r.role).filter((r) => !hidden.has(r)));
  function mark() {
    cards.forEach((c) => c.mark(roles()));
  }
  function style() {
    node.style.setProperty("--opacity", look.opacity);
    const { times, x, y } = KARAT.canvas.lens;
    node.style.setProperty("--zoom", times);
    node.style.setProperty("--fixed", `${100 * x}% ${100 * y}%`);
    node.classList.toggle("near", times > 1);
    node.classList.toggle("smooth", look.smooth);
    node.classList.toggle("no-rose", !rose);
    for (const ramp of node.querySelectorAll("[data-ramp]")) ramp.style.setProperty("--ramp", colour.gradient(look[ramp.dataset.ramp]));
  }

  /** All regions off, or all on again. */
  function toggle() {
    const roles = new Set([...(scene ? scene.regions : []).map((r) => r.role), ...(scene ? scene.phrases : []).map((p) => p[2])]);
    if ([...roles].some((r) => !hidden.has(r))) roles.forEach((r) => hidden.add(r));
    else hidden.clear();
    if (again) again();
  }

  function nothing(text) {
    asked++;
    node.replaceChildren(el("p", { class: "gone" }, text));
  }

  return { node, show, toggle, nothing, flick: () => together?.flick() };
})();
