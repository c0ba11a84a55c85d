// Numbers as people read them.
"use strict";
KARAT.format = (() => {
  const DASH = "–";
  const grouped = new Intl.NumberFormat("en");

  /** Three decimals below 10, fewer above: scores of one column line up. */
  function score(value) {
    if (value === null || value === undefined || Number.isNaN(value)) return DASH;
    const size = Math.abs(value);
    return value.toFixed(size < 10 ? 3 : size < 1000 ? 1 : 0).replace(/^-(0(\.0*)?)$/, "$1").replace("-", "−");
  }
  /** A number of any size in a few digits: 0.042, 12.5, 1,240, 3.1e−7. Text stays text. */
  function figure(value) {
    if (value === null || value === undefined || Number.isNaN(value)) return DASH;
    if (typeof value === "boolean") return value ? "yes" : "no";
    if (typeof value !== "number") return String(value);
    const size = Math.abs(value);
    if (Number.isInteger(value)) return grouped.format(value).replace("-", "−");
    if (size < 0.0005) return value.toExponential(1).replaceAll("-", "−");
    return (size < 1 ? value.toFixed(3) : size < 10 ? value.toFixed(2) : size < 1000 ? value.toFixed(1) : grouped.format(Math.round(value))).replace("-", "−");
  }
  /** How to write these numbers so that they line up: whole ones plain, else all with as many decimals. */
  function alike(values) {
    const known = values.filter((v) => typeof v === "number" && Number.isFinite(v));
    if (!known.length || known.every(Number.isInteger)) return figure;
    const most = Math.max(...known.map(Math.abs));
    const digits = most <= 1 ? 3 : most < 100 ? 2 : most < 1000 ? 1 : 0;
    return (v) => (typeof v !== "number" || (v !== 0 && Math.abs(v) < 0.5 * 10 ** -digits) ? figure(v) : v.toFixed(digits).replace("-", "−"));
  }
  const interval = (low, high) => (low === null || high === null ? "" : `${score(low)} to ${score(high)}`);
  const percent = (value) => (value === null ? DASH : `${Math.round(100 * value)} %`.replace("-", "−"));
  const count = (value) => (value === null ? DASH : grouped.format(value));
  const cost = (value) => (value === null ? DASH : value >= 100 || Number.isInteger(value) ? grouped.format(Math.round(value)) : value.toPrecision(2));

  function seconds(value) {
    if (value === null) return DASH;
    if (value < 0.001) return "< 1 ms";
    if (value < 1) return `${Math.round(value * 1000)} ms`;
    if (value < 120) return `${value.toPrecision(2)} s`;
    return value < 7200 ? `${Math.round(value / 60)} min` : `${(value / 3600).toFixed(1)} h`;
  }

  /** "3" or "2–4": where the rank may lie. */
  const rank = ([, low, high]) => (low === null ? "" : low === high ? String(low) : `${low}–${high}`);

  return { score, figure, alike, interval, percent, count, cost, seconds, rank, DASH };
})();
