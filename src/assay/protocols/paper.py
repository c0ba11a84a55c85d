"""`paper(number, run)`: what a paper claims, one claim after the other, beside what a run shows."""

from __future__ import annotations

from pathlib import Path

from assay.kernel.claim import Comparison
from assay.kernel.errors import BadInput, UnknownName
from assay.kernel.registry import build, registered
from assay.results.run import Run, load_run

RECORDED = Path(__file__).parent.parent / "recorded"


def papers() -> dict[str, str]:
    """Protocols by the number of the paper they carry out: {"000": "grid", ...}."""
    found = {getattr(cls, "paper_number", ""): name for name, cls in registered("protocol").items()}
    return {number: name for number, name in sorted(found.items()) if number}


def paper(number: str, run: str | Path | Run | None = None) -> Comparison:
    """The paper's claims judged by a run of its protocol; by the run recorded with Assay if none is given."""
    known = papers()
    if number not in known:
        raise UnknownName("paper", number, known)
    protocol = known[number]
    shown = run if isinstance(run, Run) else load_run(recorded(protocol) if run is None else run)
    ran = shown.spec["protocol"]
    if ran["name"] != protocol:
        raise BadInput(
            f"{shown.path} is a run of protocol {ran['name']}; paper {number} is about {protocol}: "
            f"run one of its specs first (`assay ls specs`)."
        )
    parameters = {key: value for key, value in ran.items() if key != "name"}
    comparison: Comparison = build("protocol", protocol, parameters).paper(shown)
    return comparison


def recorded(protocol: str) -> Path:
    """The recorded run of a protocol."""
    path = RECORDED / protocol
    if not path.is_dir():
        raise BadInput(f"no run of protocol {protocol} is recorded here: name one, `assay paper NUMBER RUN`.")
    return path
