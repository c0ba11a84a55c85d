// Which items to show, and in which order. Columns are typed arrays; a pass over fifty thousand rows takes milliseconds.
"use strict";
KARAT.filter = (() => {
  /** Codes that a chosen text has in a coded column; null: any. */
  const code = (column, chosen) => (chosen === "" || chosen === undefined ? null : column.values.indexOf(chosen));

  /** Numbers of the items that pass, in order. `data` is what browser.js loads, `state` what the reader chose. */
  function select(data, state, values) {
    const { item, sample } = data;
    const model = code(item.model, state.model);
    const dataset = code(sample.dataset, state.dataset);
    const metas = Object.entries(sample.meta).filter(([key]) => state[`meta.${key}`]).map(([key, column]) => [column.codes, code(column, state[`meta.${key}`])]);
    const right = { right: 1, wrong: 0 }[state.correct];
    const [low, high] = [state.low, state.high].map((v) => (v === "" || v === undefined ? null : Number(v)));
    const needle = (state.search || "").trim().toLocaleLowerCase();
    const row = explainerRow(data, state);
    const kept = [];
    for (let i = values.start; i < values.start + values.items; i++) {
      const s = item.sample[i];
      if (model !== null && item.model.codes[i] !== model) continue;
      if (dataset !== null && sample.dataset.codes[s] !== dataset) continue;
      if (right !== undefined && item.correct[i] !== right) continue;
      if (metas.some(([codes, wanted]) => codes[s] !== wanted)) continue;
      if (needle && !sample.search(s).includes(needle)) continue;
      const value = row === null ? null : at(values, row, i);
      if (low !== null && !(value >= low && value !== null)) continue;
      if (high !== null && !(value <= high && value !== null)) continue;
      if (state.status === "failed" && !silent(values, i)) continue;
      kept.push(i);
    }
    return order(kept, data, state, values, row);
  }

  const explainerRow = (data, state) => {
    const i = data.explainers.indexOf(state.explainer);
    return i < 0 ? null : i;
  };

  function at(values, row, item) {
    const value = values.values[row * values.items + item - values.start];
    return Number.isNaN(value) ? null : value;
  }

  /** Whether any explainer has a row without a value here. */
  function silent(values, item) {
    for (let e = 0; e < values.rows; e++) {
      const c = values.codes[e * values.items + item - values.start];
      if (c !== 0 && c !== 255) return true;
    }
    return false;
  }

  /** Spread of the explainers' scores on one item: largest minus smallest, controls aside. */
  function spread(data, values, item) {
    let [low, high] = [Infinity, -Infinity];
    data.explainers.forEach((name, e) => {
      const value = KARAT.control(name) ? null : at(values, e, item);
      if (value === null) return;
      low = Math.min(low, value);
      high = Math.max(high, value);
    });
    return high > low ? high - low : null;
  }

  function order(kept, data, state, values, row) {
    const keys = {
      maps: (i) => (Number.isNaN(data.item.disagreement[i]) ? null : -data.item.disagreement[i]),
      scores: (i) => { const s = spread(data, values, i); return s === null ? null : -s; },
      low: (i) => (row === null ? null : at(values, row, i)),
      high: (i) => { const v = row === null ? null : at(values, row, i); return v === null ? null : -v; },
    };
    const sure = (i) => (Number.isNaN(data.item.probability[i]) ? null : data.item.probability[i]);
    Object.assign(keys, { unsure: sure, sure: (i) => { const p = sure(i); return p === null ? null : -p; } });
    const key = keys[state.sort];
    if (!key) return kept;
    const pairs = kept.map((i) => [key(i), i]);
    pairs.sort((a, b) => (a[0] === null || b[0] === null ? (a[0] === null) - (b[0] === null) : a[0] - b[0]) || a[1] - b[1]);
    return pairs.map((pair) => pair[1]);
  }

  return { select, at, spread };
})();
