// The address: #page?key=value... says all that is on the screen, so that a link shows another reader the same.
"use strict";
KARAT.address = (() => {
  function read() {
    const [page, query = ""] = location.hash.slice(1).split("?");
    return { page, params: Object.fromEntries(new URLSearchParams(query)) };
  }

  /** Write what is shown, leaving out defaults; no new entry in the history, so that Back leaves the page. */
  function write(page, params, defaults = {}) {
    const query = new URLSearchParams();
    for (const [key, value] of Object.entries(params)) {
      if (value !== "" && value !== null && value !== undefined && String(value) !== String(defaults[key] ?? "")) query.set(key, value);
    }
    const text = query.toString();
    history.replaceState(null, "", `#${page}${text ? `?${text}` : ""}`);
  }

  return { read, write };
})();
