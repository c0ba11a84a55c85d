"""References: what a short citation on a card stands for in full."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import Any


@cache
def references() -> dict[str, str]:
    """Full references by their short forms, in the order of the file.

    >>> references()["Abnar and Zuidema 2020"]
    'Samira Abnar and Willem Zuidema. Quantifying Attention Flow in Transformers. ACL 2020.'
    """
    return {short: entry["text"] for entry in _entries().values() for short in entry["short"]}


def cited(citation: str) -> dict[str, str]:
    """The sources that a citation names, in full: {short form: reference}.

    >>> list(cited("gridvqax2026 Eq. 3; Li et al. 2016, Representation erasure"))
    ['gridvqax2026', 'Li et al. 2016']
    """
    return {short: text for short, text in references().items() if short in citation}


def bibtex() -> str:
    """Every reference as BibTeX, keyed as in the file.

    >>> print(bibtex().split("\\n\\n")[5])
    @misc{abnar2020,
      author = {Samira Abnar and Willem Zuidema},
      title = {{Quantifying Attention Flow in Transformers}},
      howpublished = {ACL 2020},
      year = {2020},
    }
    """
    return "\n\n".join(_bib_entry(key, entry["text"]) for key, entry in _entries().items()) + "\n"


def _bib_entry(key: str, text: str) -> str:
    # "Authors. Title. Where, year.": authors end at the first full stop that is not an initial's.
    split = re.search(r"(?<=\w\w)\.\s+", text)
    assert split is not None, f"references.yaml, {key}: expected 'Authors. Title. Where, year.'"
    authors = re.sub(r",? et al$", " and others", text[: split.start()])
    *title, where = re.split(r"(?<=[.?!])\s+", text[split.end() :].strip())
    years = re.findall(r"\b(?:19|20)\d\d\b", where)
    assert title, f"references.yaml, {key}: expected 'Authors. Title. Where, year.'"
    assert years, f"references.yaml, {key}: the year must stand at the end"
    fields = {
        "author": " and ".join(re.split(r",\s+|\s+and\s+", authors)),
        "title": f"{{{' '.join(title).rstrip('.')}}}",
        "howpublished": where.rstrip("."),
        "year": years[-1],
    }
    lines = "".join(f"  {name} = {{{value.replace('&', chr(92) + '&')}}},\n" for name, value in fields.items())
    return f"@misc{{{key},\n{lines}}}"


@cache
def _entries() -> dict[str, Any]:
    import yaml

    entries: dict[str, Any] = yaml.safe_load(files("karat").joinpath("references.yaml").read_text("utf-8"))
    return entries
