// The words of an answer and their maps: click or point at a word, or step with the arrow keys.
"use strict";
(() => {
  const { targets } = JSON.parse(document.getElementById("core").textContent);
  const buttons = [...document.querySelectorAll(".word")].sort((a, b) => a.dataset.target - b.dataset.target);
  const cards = [...document.querySelectorAll("[data-method]")];
  const status = document.getElementById("chosen");
  let fixed = 0; // what was clicked
  let pair = null; // a word of the question whose pairs are shown

  function show(k) {
    cards.forEach((card, m) => {
      const drawn = targets[k][m];
      const heat = card.querySelector(".heat");
      if (heat) heat.src = (pair !== null && drawn.pairs[pair]) || drawn.map || "data:,";
      card.querySelector(".strongest").textContent = drawn.strongest || "";
      card.querySelectorAll(".of-question").forEach((word, j) => {
        const [, colour, ink, score] = drawn.words[j];
        Object.assign(word.style, { background: colour, color: ink });
        word.title = score;
        if (drawn.pairs.length) word.setAttribute("aria-pressed", String(j === pair));
      });
    });
    for (const button of buttons) button.setAttribute("aria-pressed", String(Number(button.dataset.target) === k));
    const chosen = buttons.find((button) => Number(button.dataset.target) === k);
    if (chosen) status.textContent = `${chosen.classList.contains("whole") ? "The whole answer" : `“${chosen.textContent}”`}, ${chosen.title.replace(/^all of it, /, "")}`;
    document.body.dataset.chosen = String(k);
  }

  for (const button of buttons) {
    const k = Number(button.dataset.target);
    button.addEventListener("click", () => { fixed = k; show(k); });
    button.addEventListener("pointerenter", () => show(k));
    button.addEventListener("pointerleave", () => show(fixed));
    button.addEventListener("focus", () => show(k));
  }
  for (const word of document.querySelectorAll(".of-question"))
    word.addEventListener("click", () => {
      const j = Number(word.dataset.word);
      pair = pair === j ? null : j;
      show(fixed);
    });
  document.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step || event.altKey || event.ctrlKey || event.metaKey || targets.length < 2) return;
    event.preventDefault();
    fixed = (fixed + step + targets.length) % targets.length;
    buttons.find((button) => Number(button.dataset.target) === fixed)?.focus({ preventScroll: true });
    show(fixed);
  });
  document.body.dataset.chosen = "0";
})();
