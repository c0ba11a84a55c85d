// Citations: the short form on a card leads to the full reference on the page about this run.
"use strict";
KARAT.sources = (() => {
  const { el } = KARAT.dom;
  const sources = KARAT.core.about.sources;

  const place = (short) => `source-${short.replace(/\W+/g, "-")}`;

  /** The text of a citation, each source in it a link; its tooltip is the full reference. */
  function cite(citation) {
    const found = Object.keys(sources).map((short) => [citation.indexOf(short), short]).filter(([at]) => at >= 0).sort((a, b) => a[0] - b[0]);
    const parts = [];
    let end = 0;
    for (const [at, short] of found) {
      if (at < end) continue;
      parts.push(citation.slice(end, at), el("a", { href: `#about?at=${place(short)}`, title: sources[short] }, short));
      end = at + short.length;
    }
    return el("bdi", null, parts, citation.slice(end));
  }

  return { cite, place };
})();
