"""What each metric can be trusted with, from how it treated explanations of known worth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from karat.kernel.identity import generator
from karat.protocols.audit.ladder import RANDOM, RUNGS, SWAPS, Order, Trial, order
from karat.protocols.common.controls import ORACLE
from karat.statistics.bootstrap import bootstrap_mean

# They have never met the model; an explanation that is half true should beat them.
BLIND = ("control/edges", "control/center", "control/uniform", "control/box_only")
FOOLED = "What fools it"  # a section of the findings
Preference = Literal["yes", "no", "cannot tell"]
TINY = 1e-12  # what differs by less differs by rounding
HALF_TRUE, OTHER_TWIN, WRONG_WORDS = "control/swap(0.4)", "control/other_twin", "control/words"


@dataclass(frozen=True)
class Trust:
    """Worst case over the models of the run; None where the run lacks the explanations."""

    metric: str
    orders: Order | None  # the ladder of swaps
    mass: Order | None  # the ladder of noise, which only metrics of mass can follow all the way
    sees: float | None
    models: tuple[str, ...]
    blind_on: tuple[str, ...]  # models on which the oracle does not beat noise
    backwards_on: tuple[str, ...]  # models on which noise beats the oracle
    own_reasons: Preference | None  # the truth about this model beats the truth about its twin
    reads_words: Preference | None
    fooled_by: tuple[str, ...]

    @property
    def advice(self) -> str:
        name = self.metric
        if self.orders is None:
            return f"{name}: too few rungs of the ladder in this run to say anything."
        if self.backwards_on:
            return f"Do not use {name} on models like {', '.join(self.backwards_on)}: it prefers noise to the truth."
        if self.orders.low < 0.8 or self.blind_on:
            weak = f"on {', '.join(self.blind_on)} it cannot tell the truth from noise" if self.blind_on else (
                f"at its worst it orders the ladder with tau {self.orders.tau:.2f}, at least {self.orders.low:.2f}"
            )  # fmt: skip
            return f"Do not rank explainers by {name} alone: {weak}."
        if self.own_reasons == "no":
            return (
                f"Trust {name} to find objects, not reasons: it does not prefer the truth about a model to the truth "
                "about its twin."
            )
        if self.own_reasons == "cannot tell":
            return (
                f"Trust {name} to find objects: these samples do not tell whether it prefers the truth about a model "
                "to the truth about its twin."
            )
        if self.fooled_by:
            return f"Trust {name} between explainers that look at the model; {', '.join(self.fooled_by)} fool it."
        return f"Trust {name} to rank explanations of models like these."


def trust(trials: Sequence[Trial]) -> Trust:
    """One metric, over all its trials."""
    orders, mass = (
        [ordered for trial in trials if (ordered := order(trial, rungs)) is not None] for rungs in (SWAPS, RUNGS)
    )
    sees = [ordered.sees for ordered in orders]
    signs = {trial.model: sign(trial, ORACLE, RANDOM) for trial in trials}
    fooled = [name for name in BLIND if any(sign(trial, name, HALF_TRUE) == 1 for trial in trials)]
    return Trust(
        trials[0].metric,
        min(orders, key=lambda ordered: ordered.tau) if orders else None,
        min(mass, key=lambda ordered: ordered.tau) if mass else None,
        None if not sees or None in sees else max(level for level in sees if level is not None),
        tuple(trial.model for trial in trials),
        tuple(model for model, sign in signs.items() if sign == 0),
        tuple(model for model, sign in signs.items() if sign == -1),
        prefers(trials, ORACLE, OTHER_TWIN),
        prefers(trials, ORACLE, WRONG_WORDS),
        tuple(fooled),
    )


def prefers(trials: Sequence[Trial], better: str, worse: str) -> Preference | None:
    """Whether a metric prefers one explanation to another on every model. "no" where on some model it is shown to
    prefer the other, or scores both alike on every sample; None where no model has both."""
    gaps = [gap for trial in trials if len(gap := trial.gap(better, worse)) > 1]
    if not gaps:
        return None
    signs = [sign(trial, better, worse) for trial in trials]
    if -1 in signs or any(np.abs(gap).max() < TINY for gap in gaps):
        return "no"
    return "cannot tell" if 0 in signs else "yes"


def sign(trial: Trial, better: str, worse: str) -> int | None:
    """1 or -1 where the paired 95 % interval excludes zero, 0 where it does not, None where there are no pairs."""
    gap = trial.gap(better, worse)
    if len(gap) < 2:
        return None
    if np.ptp(gap) < TINY:  # the same for all: no interval needed
        return 0 if abs(gap[0]) < TINY else int(np.sign(gap[0]))
    rng = generator(0, f"{trial.model}/{trial.metric}", f"audit/{better}/{worse}")
    mean_gap = bootstrap_mean(gap, rng=rng, resamples=1000)
    return 1 if mean_gap.low > 0 else -1 if mean_gap.high < 0 else 0
