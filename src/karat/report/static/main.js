// Pages, keys and theme.
"use strict";
(() => {
  const { el, say } = KARAT.dom;
  const PAGES = { overview: KARAT.overview, findings: KARAT.findings, slices: KARAT.slices, samples: KARAT.browser, about: KARAT.about };
  let shown = null;

  function route() {
    const { page, params } = KARAT.address.read();
    if (page === "main") return; // the skip link
    const name = page in PAGES ? page : "overview";
    for (const section of document.querySelectorAll("main > .page")) section.hidden = section.id !== `page-${name}`;
    for (const link of document.querySelectorAll("nav a")) {
      if (link.dataset.page === name) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    if (shown !== null && shown !== name) scrollTo(0, 0);
    shown = name;
    Promise.resolve(PAGES[name].open(params)).catch((error) => {
      document.getElementById(`page-${name}`).append(el("p", { class: "gone" }, `This page could not be shown: ${error.message}`));
      throw error;
    });
  }

  const KEYS = [["j / k", "next / previous sample"], ["/", "search samples"], ["r", "ground truth on or off"], ["f", "flick between two chosen cells"], ["1 … 5", "overview, findings, slices, samples, this run"], ["?", "this list"], ["Esc", "close, or leave the search field"]];
  const dialog = document.getElementById("keys");
  dialog.append(el("h2", { id: "keys-title" }, "Keys"), el("dl", null, KEYS.flatMap(([key, text]) => [el("dt", null, el("kbd", null, key)), el("dd", null, text)])),
    el("form", { method: "dialog" }, el("button", null, "Close")));
  const help = () => (dialog.open ? dialog.close() : dialog.showModal());
  document.getElementById("help").addEventListener("click", help);

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = event.target.closest("input:not([type=checkbox]):not([type=range]), select, textarea");
    if (event.key === "Escape" && typing) typing.blur();
    if (typing || (dialog.open && event.key !== "?")) return;
    const page = Object.keys(PAGES)[Number(event.key) - 1];
    if (page) location.hash = page;
    else if (event.key === "?") help();
    else if (event.key === "/") {
      event.preventDefault();
      if (shown === "samples") KARAT.browser.focusSearch();
      else {
        location.hash = "samples";
        setTimeout(KARAT.browser.focusSearch, 300);
      }
    } else if (shown === "samples" && event.key === "j") KARAT.browser.go(1);
    else if (shown === "samples" && event.key === "k") KARAT.browser.go(-1);
    else if (shown === "samples" && event.key === "r") KARAT.viewer.toggle();
    else if (shown === "samples" && event.key === "f") KARAT.viewer.flick();
  });

  // Light and dark follow the system until the reader says otherwise; some browsers keep no storage for files.
  const root = document.documentElement;
  const button = document.getElementById("theme");
  const recall = () => {
    try { return localStorage.getItem("karat-theme"); } catch { return null; }
  };
  const dark = () => (root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches);
  const name = () => { button.textContent = dark() ? "Light" : "Dark"; button.setAttribute("aria-label", `Switch to ${dark() ? "light" : "dark"} colours`); };
  if (recall()) root.dataset.theme = recall();
  button.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    try { localStorage.setItem("karat-theme", root.dataset.theme); } catch { /* shown, not kept */ }
    name();
    say(`${dark() ? "Dark" : "Light"} colours`);
  });
  name();

  addEventListener("hashchange", route);
  route();
})();
