// The first screen: for each protocol the figure that is its answer, and the sample that shows it best.
"use strict";
KARAT.front = (() => {
  const { el, breakable } = KARAT.dom;
  const { score } = KARAT.format;
  const core = KARAT.core;
  const look = { opacity: 0.75, map: KARAT.colour.plain[0], signed: KARAT.colour.signed[0], smooth: false };
  let drawn = false;

  function open() {
    if (drawn) return;
    drawn = true;
    for (const place of document.querySelectorAll(".answer-figure")) {
      const one = core.front.find((f) => f.protocol === place.dataset.protocol);
      if (one.figure && !KARAT.plot.empty(one.figure)) place.append(KARAT.plot.block(one.figure, one.figure.title, "h3", Math.min(place.clientWidth, 680)));
      if (one.sample) sample(one.protocol, one.sample).then((node) => place.append(node), (error) => console.warn(String(error)));
      place.classList.toggle("both", Boolean(one.figure && one.sample));
    }
  }

  async function sample(protocol, told) {
    const [scenes, maps, texts] = await Promise.all([KARAT.need(told.scene[0]), KARAT.need(told.maps[0]), KARAT.need(`texts-${Math.floor(told.text / core.browser.texts)}`)]);
    const scene = scenes[told.scene[1]];
    if (!scene) throw new Error("the picture is gone");
    const kept = maps[told.maps[1]] || {};
    const link = `#samples?${new URLSearchParams({ protocol, metric: told.metric, at: `${told.model}|${told.id}` })}`;
    const stages = [];
    const card = (name, map, caption, value) => {
      const stage = KARAT.canvas.stage(scene, map, look, caption, () => {}, () => {});
      stage.mark(new Set(), told.mechanism);
      stages.push(stage);
      return el("figure", { class: "card" }, stage.node, el("figcaption", null, el("span", { class: "name", dir: "auto" }, breakable(name)), value === null ? null : el("span", { class: "score" }, score(value))));
    };
    const of = (one, which) => card(one.name, kept[one.name]?.map ? KARAT.canvas.decode(kept[one.name].map) : null, `Heatmap of ${one.name}, the ${which}`, one.value);
    const used = scene.truth?.[told.mechanism]?.length;
    return el("section", { class: "telling", "aria-label": "The sample that shows it best" },
      el("h3", { dir: "auto" }, texts.question[told.text % core.browser.texts] || told.id),
      el("div", { class: "cards" }, card("Image", null, "The image, with what the model must use", null), of(told.best, "best"), of(told.worst, "worst")),
      el("p", { class: "note" }, used ? "Outlined: what the model must use. " : "", told.rule, " Model: ", el("bdi", null, told.model), ". ", el("a", { href: link }, "See every explainer on it")));
  }

  return { open };
})();
