"""References: what a short citation on a card stands for in full."""

from __future__ import annotations

from functools import cache
from importlib.resources import files


@cache
def references() -> dict[str, str]:
    """Full references by their short forms, in the order of the file.

    >>> references()["Abnar and Zuidema 2020"]
    'Samira Abnar and Willem Zuidema. Quantifying Attention Flow in Transformers. ACL 2020.'
    """
    import yaml

    entries = yaml.safe_load(files("assay").joinpath("references.yaml").read_text("utf-8"))
    return {short: entry["text"] for entry in entries.values() for short in entry["short"]}


def cited(citation: str) -> dict[str, str]:
    """The sources that a citation names, in full: {short form: reference}.

    >>> list(cited("gridvqax2026 Eq. 3; Li et al. 2016, Representation erasure"))
    ['gridvqax2026', 'Li et al. 2016']
    """
    return {short: text for short, text in references().items() if short in citation}
