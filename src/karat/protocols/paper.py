"""`paper(number, *runs)`: what a paper claims, one claim after the other, beside what runs of its protocol show."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from karat.kernel.claim import Comparison
from karat.kernel.errors import BadInput, UnknownName
from karat.kernel.registry import build, registered
from karat.results.joined import Joined
from karat.results.run import Run, load_run

RECORDED = Path(__file__).parent.parent / "recorded"


def papers() -> dict[str, str]:
    """Protocols by the number of the paper they carry out: {"000": "grid", ...}."""
    known = {cls.card.paper: name for name, cls in registered("protocol").items() if cls.card.paper}
    return dict(sorted(known.items()))


def paper(number: str, *runs: str | Path | Run) -> Comparison:
    """The paper's claims judged by runs of its protocol, read as one, or by the one recorded with Karat.

    `recorded:NAME` stands for another run that is recorded with Karat, as `recorded:semantic_predicted`.
    """
    known = papers()
    if number not in known:
        raise UnknownName("paper", number, known)
    protocol = known[number]
    loaded = [run if isinstance(run, Run) else load_run(_path(run)) for run in runs or (recorded(protocol),)]
    for run in loaded:
        if (ran := run.spec["protocol"]["name"]) != protocol:
            raise BadInput(
                f"{run.path} is a run of protocol {ran}; paper {number} is about {protocol}: "
                f"run one of its specs first (`karat ls specs`)."
            )
    whole = Joined.of(loaded)
    comparison: Comparison = protocol_of(whole).paper(whole)
    return comparison


def protocol_of(run: Run) -> Any:
    """The protocol of a run, as its spec sets it up."""
    parameters = dict(run.spec["protocol"])
    return build("protocol", parameters.pop("name"), parameters)


def _path(run: str | Path) -> str | Path:
    kind, colon, name = str(run).partition(":")
    return recorded(name) if colon and kind == "recorded" else run


def recorded(protocol: str) -> Path:
    """The recorded run of a protocol."""
    path = RECORDED / protocol
    if not path.is_dir():
        raise BadInput(f"no run of protocol {protocol} is recorded here: name one, `karat paper NUMBER RUN`.")
    return path
