// Elements. Every string goes in as text: names and questions may hold anything, and nothing is ever parsed as HTML.
"use strict";
KARAT.dom = (() => {
  const SVG = "http://www.w3.org/2000/svg";

  function fill(node, attributes, children) {
    for (const [name, value] of Object.entries(attributes || {})) {
      if (value === null || value === undefined || value === false) continue;
      if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
      else if (name === "style") for (const [key, v] of Object.entries(value)) node.style.setProperty(key, v);
      else node.setAttribute(name, value === true ? "" : String(value));
    }
    for (const child of children.flat(Infinity)) {
      if (child !== null && child !== undefined && child !== false) node.append(child);
    }
    return node;
  }

  const el = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
  const svg = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

  /** Text that comes from data: isolated, so that right-to-left names do not turn their neighbours around. */
  const said = (text) => el("bdi", null, String(text));

  /** Prose of ours, where `backticks` stand around names: those are set as code. */
  const prose = (text) => String(text).split("`").map((part, i) => (i % 2 ? el("code", null, part) : part));

  let ids = 0;
  /** A labelled select; `options` are [value, text] pairs. */
  function choose(label, options, value, changed) {
    const id = `f${++ids}`;
    const select = el("select", { id, onchange: () => changed(select.value) });
    for (const [key, text] of options) select.append(el("option", { value: key }, String(text)));
    select.value = value;
    return { node: el("div", { class: "field" }, el("label", { for: id }, label), select), select };
  }

  function input(label, attributes, changed) {
    const id = `f${++ids}`;
    const field = el("input", { id, ...attributes, oninput: () => changed(field.type === "checkbox" ? field.checked : field.value) });
    const name = el("label", { for: id }, label);
    const pair = attributes.type === "checkbox" ? [field, name] : [name, field];
    return { node: el("div", { class: `field ${attributes.type || "text"}` }, pair), field };
  }

  function say(text) {
    document.getElementById("status").textContent = text;
  }

  /** A registered name, which a narrow place breaks behind its family and nowhere else. */
  const breakable = (name) => String(name).split("/").flatMap((part, i) => (i ? ["/", el("wbr"), part] : [part]));

  const CONTROLS = "a[href], button:not(:disabled), select, input, summary";
  const called = (control) => `${control.tagName} ${control.labels?.[0]?.textContent ?? control.getAttribute("aria-label") ?? control.textContent}`;

  /** Draw a place anew and leave the reader where they were: on the control of the same name, else on its neighbour. */
  function redraw(place, ...children) {
    const held = place.contains(document.activeElement) ? document.activeElement : null;
    const [name, next] = [held && called(held), held && held.parentElement.className];
    place.replaceChildren(...children);
    if (!held || place.contains(document.activeElement)) return;
    const there = [...place.querySelectorAll(CONTROLS)];
    (there.find((control) => called(control) === name) ?? there.find((control) => next && control.parentElement.className === next))?.focus({ preventScroll: true });
  }

  return { el, svg, said, prose, choose, input, say, redraw, breakable };
})();
