"""A comparison of two runs as a table: the cells that the terminal prints, and a Markdown page of the same."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from karat.report.compare import Change, Compared

_ORDER = ("worse", "changed", "better", "no difference shown", "too few", "control")
_LONGEST = 60  # characters of a setting; a model's configuration can be pages


def verdict(compared: Compared) -> str:
    """One sentence on the whole comparison."""
    number_of = _tally(compared)
    if number_of["worse"]:
        verb = "is" if number_of["worse"] == 1 else "are"
        return f"{number_of['worse']:,} of {number_of.total():,} comparisons {verb} worse"
    if number_of["not judged"] == number_of.total():
        return "No comparison could be judged"
    return "Nothing is worse beyond chance"


def counts(compared: Compared) -> str:
    number_of = _tally(compared)
    parts = [f"{number_of[judgement]:,} {judgement}" for judgement in ("worse", "better", "changed")]
    parts += [
        f"{number_of['no difference shown']:,} with no difference shown",
        f"{number_of['not judged']:,} not judged",
    ]
    return f"{number_of.total():,} comparisons: {', '.join(parts)}."


def _tally(compared: Compared) -> Counter[str]:
    """Rows that fail anew make a comparison worse, whatever became of its other rows."""
    judgements = ("worse" if change.is_worse else change.judgement for change in compared.changes)
    return Counter("not judged" if judgement in ("control", "too few") else judgement for judgement in judgements)


def listed_changes(compared: Compared, everything: bool = False) -> list[Change]:
    """What a reader should see, worse first; `everything`: also what has not changed, and controls."""
    differing = ("worse", "changed", "better")
    listed = [change for change in compared.changes if everything or change.is_worse or change.judgement in differing]
    return sorted(listed, key=lambda change: (not change.is_worse, _ORDER.index(change.judgement)))


def columns(changes: Sequence[Change]) -> list[str]:
    """Protocol and data have a column where there is more than one of them to tell apart."""
    places = [name for name in ("protocol", "dataset") if len({getattr(change, name) for change in changes}) > 1]
    names = {"protocol": "protocol", "dataset": "data"}
    numbers = ["before", "after", "difference", "95 % interval", "p (Holm)", "pairs"]
    return ["", "explainer", "score", "model", *(names[place] for place in places), *numbers]


def cells(change: Change, titles: Sequence[str]) -> list[str]:
    """The text of a row under these titles."""
    interval = f"{change.low:+.4g} to {change.high:+.4g}" if change.low == change.low else "-"
    texts = {
        "": change.judgement + (f" ({change.lost} rows fail now)" if change.lost else ""),
        "explainer": change.explainer, "score": change.metric, "model": change.model, "protocol": change.protocol,
        "data": change.dataset, "before": number(change.before), "after": number(change.after),
        "difference": number(change.difference, "+.4g"), "95 % interval": interval,
        "p (Holm)": number(change.p, ".2g"), "pairs": str(change.pairs),
    }  # fmt: skip
    return [texts[title] for title in titles]


def number(value: float, form: str = ".4g") -> str:
    return f"{value:{form}}" if value == value else "-"


def settings(compared: Compared) -> list[list[str]]:
    """What was set differently, cut to a length that fits a table."""
    return [
        [text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..." for text in row] for row in compared.settings
    ]


def markdown(compared: Compared, everything: bool = False) -> str:
    """A page for a job summary or a comment: the verdict, the table worse first, and what was set differently.

    Labels come from runs and are anybody's text: they stand in code spans, where nothing is a link, a mention or HTML.

    Example: `Path("summary.md").write_text(markdown(compare("runs/main", "runs/branch")))`
    """
    lines = [
        f"## Karat: {verdict(compared)}",
        "",
        f"{code(compared.before)} → {code(compared.after)}. {counts(compared)}",
        "",
        f"Worse: a corrected p below {compared.level:g} and means that differ by more than {compared.tolerance:g}, "
        "or rows that had a score and fail now.",
    ]
    changes = listed_changes(compared, everything)
    titles = columns(changes)
    labels = {titles.index(title) for title in ("explainer", "score", "model", "protocol", "data") if title in titles}
    rows = [[code(text) if k in labels else text for k, text in enumerate(cells(change, titles))] for change in changes]
    lines += _table(titles, rows)
    lines += _table(
        ["set differently", "before", "after"], [[code(text) for text in row] for row in settings(compared)]
    )
    for places, run in ((compared.only_before, compared.before), (compared.only_after, compared.after)):
        if places:
            lines += ["", f"{len(places):,} only in {code(run)}, the first: {code(' · '.join(places[0]))}"]
    return "\n".join(lines) + "\n"


def code(text: str) -> str:
    r"""A code span of any text, also inside a table.

    >>> code("cam/gradcam"), code("a|b"), code("a`b"), code("two\nlines")
    ('`cam/gradcam`', '`a\\|b`', '``a`b``', '`two\\nlines`')
    """
    text = printable(text) or "-"
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", text)), default=0))
    pad = " " if text.strip(" ") and (text[0] in "` " or text[-1] in "` ") else ""
    return f"{fence}{pad}{text}{pad}{fence}".replace("|", r"\|")


def printable(text: str) -> str:
    r"""Control characters and half characters, which XML and terminals do not bear, as escapes.

    >>> printable("a\x1b[31m\ud800 é")
    'a\\x1b[31m\\ud800 é'
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    if not rows:
        return []
    lines = [titles, ["---"] * len(titles), *rows]
    return ["", *(f"| {' | '.join(line)} |" for line in lines)]
