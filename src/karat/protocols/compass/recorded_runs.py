"""Recorded runs that speak to claims which a run has nothing to say about: photographs (`compass-photographs`, controls
alone) and training interventions (`compass-lora`).

Grid scenes lie near the four cardinal directions, which four sectors read without loss: what is claimed of settings is
judged on photographs too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pandas as pd

from karat.kernel.claim import Claim
from karat.kernel.finding import Finding
from karat.kernel.roles import Results
from karat.protocols.common.published import Published
from karat.protocols.compass import analysis, comparisons, diagnostics, published_tables
from karat.results.facts import parts_of
from karat.results.run import Run, load_run

_PHOTOGRAPHS = " (photographs: controls of the recorded compass-photographs)"
LORA = "the recorded run of compass-lora"
_TRAINING = " (recorded run of compass-lora)"


def photographs(run: Results) -> Run | None:
    """The recorded run on photographs; None where there is none, or where the run judged is about photographs."""
    facts = parts_of(run.manifest)["dataset"].values()
    own = any(str(one.get("name")) in published_tables.DATASETS for one in facts)
    return None if own else _recorded("photographs")


def training(gains: pd.DataFrame) -> Run | None:
    """The recorded run of training interventions; None where there is none, or where a run has its own."""
    return None if (gains["objective"] != "none").any() else _recorded("lora")


def _recorded(name: str) -> Run | None:
    from karat.protocols.paper import RECORDED  # which asks protocols for their papers

    path = RECORDED / name
    return load_run(path) if path.is_dir() else None


def photograph_claims(run: Run) -> Iterator[Claim]:
    """Claims about the reading and its controls, which need no model. D.1 and D.2 are about COCO-Pairs."""
    from karat.protocols.compass.claims import noise_claim, reading_claims

    yield _named(noise_claim(analysis.readings(run.scores())), _PHOTOGRAPHS)
    battery = diagnostics.Battery.of(run)
    if battery is not None:
        varied, parts = diagnostics.varied(battery), parts_of(run.manifest)
        pairs = [label for label, facts in parts["dataset"].items() if facts.get("name") == "spatial/coco_pairs"]
        for claim in reading_claims(varied[varied["dataset"].isin(pairs)]):
            yield _named(claim, _PHOTOGRAPHS)


def photograph_tables(run: Run, printed: Published) -> tuple[Finding, ...]:
    """Table 1 with each dataset of the paper beside its own column."""
    made = published_tables.table_1(analysis.readings(run.scores()), parts_of(run.manifest), printed)
    return tuple(replace(one, title="Table 1 beside photographs, controls alone") for one in made)


def training_gains(run: Run) -> pd.DataFrame:
    return comparisons.gains(run.scores(), parts_of(run.manifest))


def training_claims(gains: pd.DataFrame) -> Iterator[Claim]:
    from karat.protocols.compass.claims import training_claims as judged

    for claim in judged(gains):
        yield _named(claim, _TRAINING)


def _named(claim: Claim, where: str) -> Claim:
    return replace(claim, text=claim.text + where)
