"""Every shipped spec asks its twins what they can answer: at the size of its cells they do what their name says."""

from __future__ import annotations

from importlib.resources import files

import pytest

from karat.kernel.registry import build
from karat.kernel.spec import Spec
from karat.models import load_model
from karat.models.claims import bar_for
from karat.models.counterfactual import verdicts
from karat.probe import Session
from karat.protocols.grid.exact_reference import batch_of

PER_BUCKET = 3


def asked() -> list[tuple[str, int]]:
    """Twins with learnt weights, and the cells of the grids that specs show them."""
    found = set()
    for path in files("karat.specs").iterdir():
        if path.name.endswith(".yaml"):
            spec = Spec.read(str(path))
            cells = {int(d.parameters.get("cell", 64)) for d in spec.datasets if d.name == "grid"}
            twins = {m.name for m in spec.models if m.name in TRAINED}
            found |= {(twin, cell) for twin in twins for cell in cells}
    return sorted(found)


TRAINED = ("gridnet.pure", "gridnet.spur", "gridvlm.pure", "gridvlm.spur")


def test_small_cells_are_among_them() -> None:
    assert ("gridnet.pure", 16) in asked()
    assert ("gridvlm.pure", 16) in asked()


@pytest.mark.parametrize(("twin", "cell"), asked())
def test_a_twin_follows_its_mechanism_on_what_a_spec_shows_it(twin: str, cell: int) -> None:
    pytest.importorskip("torch")
    dataset = build("dataset", "grid", {"cell": cell, "per_bucket": PER_BUCKET, "order": "bucket"})
    samples = dataset.load(0, len(dataset))
    said = Session(load_model(twin), samples).targets
    follows = 0
    for start in range(0, len(samples), PER_BUCKET):
        meta = samples[start].meta
        place = tuple(meta[name] for name in ("preset", "mode", "bucket", "seed"))
        known = verdicts(batch_of(place, range(PER_BUCKET)))
        own = known.truth if twin.endswith("pure") else known.shortcut
        follows += sum(str(a) == str(b) for a, b in zip(said[start : start + PER_BUCKET], own, strict=True))
    needed = bar_for(twin).overall if twin.endswith("pure") else bar_for(twin).follows
    assert follows / len(samples) >= needed - 0.03  # few samples
