// A page that `karat view` serves: says how far the run is, and shows itself anew when there are new rows. A page opened
// from disk, or put on any web space, has no `data-live` and asks for nothing.
"use strict";
(() => {
  const mine = document.documentElement.dataset.live;
  if (mine === undefined) return;
  const { el } = KARAT.dom;
  const note = el("p", { class: "live", role: "status" });
  document.querySelector(".top .tools").before(note);

  /** Nobody likes a page that turns under his hands. */
  const busy = () => document.querySelector("dialog[open], details.menu[open]") || document.activeElement?.matches("input, select");

  async function look() {
    try {
      const { page, done, wanted } = await (await fetch("live.json")).json();
      note.textContent = done < wanted ? `Running: ${done} of ${wanted} cells` : "Complete";
      note.classList.toggle("done", done >= wanted);
      if (String(page) !== mine && !busy()) location.reload();
    } catch {
      note.textContent = "The server has stopped";
      clearInterval(timer);
    }
  }

  const timer = setInterval(look, 2000);
  look();
})();
