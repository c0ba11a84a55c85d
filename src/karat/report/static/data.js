// Data chunks. `file://` pages may not fetch, but they may load scripts: each chunk calls KARAT.push(name, value).
// In a single-file report the chunks stand in the page as inert JSON blocks.
"use strict";
window.KARAT = (() => {
  const chunks = new Map();
  const waiting = new Map();

  function push(name, value) {
    chunks.set(name, value);
    const wait = waiting.get(name);
    if (wait) {
      waiting.delete(name);
      wait.resolve(value);
    }
  }

  /** The chunk of that name: at once where it is in the page, else when its script has loaded. */
  function need(name) {
    if (chunks.has(name)) return Promise.resolve(chunks.get(name));
    const block = document.getElementById(`data-${name}`);
    if (block) {
      push(name, JSON.parse(block.textContent));
      return Promise.resolve(chunks.get(name));
    }
    if (!waiting.has(name)) {
      const wait = {};
      wait.promise = new Promise((resolve, reject) => Object.assign(wait, { resolve, reject }));
      waiting.set(name, wait);
      const script = document.createElement("script");
      script.src = `data/${name}.js`;
      script.onerror = () => {
        waiting.delete(name);
        wait.reject(new Error(`data/${name}.js is missing: was the report copied whole?`));
      };
      document.head.append(script);
    }
    return waiting.get(name).promise;
  }

  const KINDS = { f: Float32Array, i: Int32Array, u: Uint8Array };

  function bytes(base64) {
    const text = atob(base64);
    const found = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) found[i] = text.charCodeAt(i);
    return found;
  }

  /** A packed array as a typed array (row by row). */
  function unpack(packed) {
    return new KINDS[packed.kind](bytes(packed.data).buffer);
  }

  /** A coded column: text of row i, or null. */
  function column(coded) {
    const codes = unpack(coded.codes);
    return { values: coded.values, codes, at: (i) => (codes[i] < 0 ? null : coded.values[codes[i]]) };
  }

  /** Whether an explainer is a control: the run says so, not its name. */
  const control = (name) => controls.has(name);

  const core = JSON.parse(document.getElementById("data-core").textContent);
  const controls = new Set(core.controls);
  return { push, need, bytes, unpack, column, control, core };
})();
