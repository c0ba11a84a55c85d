"""A comparison of two runs as JUnit XML, which CI systems show as tests."""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree import ElementTree as ET

from karat.report.compare import Change, Compared, Place
from karat.report.comparison_table import number, printable, verdict

_NOT_JUDGED = {
    "too few": "fewer than two samples have a value in both runs",
    "control": "a control is shown and never judged",
}


def junit(compared: Compared) -> bytes:
    """One test for each explainer on each score, in a suite for each protocol, model and dataset.

    It fails where the score is worse or rows fail anew, and is skipped where nothing can be judged: too few pairs, a
    control, or a score that one run alone has. Versions, and what was set differently, are properties of every suite.

    Example: `Path("compare.xml").write_bytes(junit(compare("runs/main", "runs/branch")))`
    """
    suites: dict[tuple[str, ...], list[ET.Element]] = {}
    for change in compared.changes:
        place = Place(change.protocol, change.model, change.dataset, change.explainer, change.metric)
        suites.setdefault(place[:3], []).append(_test(place, _outcome(change)))
    for places, run in ((compared.only_before, compared.before), (compared.only_after, compared.after)):
        for place in places:
            skipped = _element("skipped", message=f"only in {run}: nothing to compare with")
            suites.setdefault(place[:3], []).append(_test(place, skipped))
    root = _element("testsuites", name=f"karat compare: {verdict(compared)}")
    for names, tests in suites.items():
        suite = _element("testsuite", name=" · ".join(names), **_totals(tests))
        properties = _element("properties")
        properties.extend(_element("property", name=name, value=value) for name, value in _facts(compared))
        suite.extend([properties, *tests])
        root.append(suite)
    totals = _totals([test for tests in suites.values() for test in tests])
    del totals["skipped"]  # Jenkins' schema has it for suites only
    root.attrib.update(totals)
    ET.indent(root)
    return bytes(ET.tostring(root, encoding="utf-8", xml_declaration=True)) + b"\n"


def _test(place: Place, outcome: ET.Element) -> ET.Element:
    title = f"{place.explainer} · {place.metric}"
    test = _element("testcase", classname=" · ".join(place[:3]), name=title, time="0")
    test.append(outcome)
    return test


def _outcome(change: Change) -> ET.Element:
    sentence = _sentence(change)
    if change.is_worse:
        element = _element("failure", message=sentence, type="rows fail" if change.lost else "worse")
        element.text = printable(sentence)
    elif change.judgement in _NOT_JUDGED:
        element = _element("skipped", message=_NOT_JUDGED[change.judgement])
    else:
        element = _element("system-out")
        element.text = printable(sentence)
    return element


def _sentence(change: Change) -> str:
    lost = f"{change.lost} rows had a score and fail now; " if change.lost else ""
    means = f"{number(change.before)} before, {number(change.after)} after"
    interval = f"95 % interval {number(change.low, '+.4g')} to {number(change.high, '+.4g')}"
    difference = f"difference {number(change.difference, '+.4g')} ({interval})"
    return f"{change.judgement}: {lost}{means}, {difference}, p {number(change.p, '.2g')} (Holm), {change.pairs} pairs"


def _facts(compared: Compared) -> Iterator[tuple[str, str]]:
    yield "before", compared.before
    yield "after", compared.after
    yield "level", f"{compared.level:g}"
    yield "tolerance", f"{compared.tolerance:g}"
    for field, before, after in dict.fromkeys((*compared.versions, *compared.settings)):
        yield f"before.{field}", before
        yield f"after.{field}", after


def _totals(tests: list[ET.Element]) -> dict[str, str]:
    failures, skipped = (sum(test.find(kind) is not None for test in tests) for kind in ("failure", "skipped"))
    return {"tests": str(len(tests)), "failures": str(failures), "errors": "0", "skipped": str(skipped), "time": "0"}


def _element(tag: str, **attributes: str) -> ET.Element:
    return ET.Element(tag, {name: printable(text) for name, text in attributes.items()})
