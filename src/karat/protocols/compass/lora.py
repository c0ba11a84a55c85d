"""`Lora`: a vision-language model after a small training intervention (creg2026 appendix G), as a model recipe.

A spec names it `karat.protocols.compass.lora:Lora`, so that the intervention and its untouched base stand in one run
and the page sets accuracy beside direction. Importing this loads no torch: planning needs none.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from karat.kernel.card import Card
from karat.kernel.identity import digest
from karat.kernel.roles import Dataset, ModelRecipe
from karat.kernel.typing import Scalar
from karat.models import recipe

if TYPE_CHECKING:
    from karat.models.vlm_adapter import VLM

Strategy = Literal["none", "answers", "direction", "localisation", "contrastive"]


@dataclass(frozen=True)
class Lora:
    """`base` after training on questions of `spatial/grid`, or of COCO-Pairs where `instances` is given.

    Strategies: `answers` trains on the right answers alone (the paper has no such control); the others add one
    auxiliary objective with `weight`; `none` trains nothing. The paper gives rank, alpha, modules, samples, epochs and
    rate; batch size, weights and the relevance that is trained are ours.

    A twin that answers everything has nothing to learn: `shaken` first adds noise of so many standard deviations of
    each weight to the decoder's. `seed` draws all three: the noise, the questions and the training. `layer` is where
    the relevance is read that `direction` and `localisation` train: one at which gradient times activation is a signal
    (not `decoder.late`: see `karat.explainers.gradient.activation`).
    """

    base: str = "gridvlm.pure"
    strategy: Strategy = "answers"
    path: str = ""  # of a `vlm`: a directory or a hub id
    dtype: str = "float32"
    device: str = "cpu"
    instances: str = ""
    images: str = ""
    samples: int = 201
    epochs: int = 3
    rate: float = 2e-4
    rank: int = 16
    alpha: int = 32
    weight: float = 1.0
    entropy: float = 0.1
    batch: int = 8
    seed: int = 1
    shaken: float = 0.0
    layer: str = "decoder.signal"
    card: ClassVar[Card] = Card(
        "lora", "a vision-language model after LoRA on spatial questions, with an objective on its own evidence",
        "model", citation="creg2026, G", extra="train",
        departures="adapters on q_proj and v_proj of the decoder only; trained relevance is |gradient × activation| "
        "at a layer where that is a signal",
        version=2,
    )  # fmt: skip

    @property
    def label(self) -> str:
        base = self.source.label + (f" shaken {self.shaken:g}" if self.shaken else "")
        trained = "" if self.strategy == "none" else f" + {self.strategy}"
        return base + trained + (f" seed {self.seed}" if self.seed != 1 else "")

    @property
    def facts(self) -> dict[str, Scalar]:
        """Those of the base, and how it was trained; `of` is the label of the base."""
        training: dict[str, Scalar] = {"of": self.source.label, "strategy": self.strategy, "weight": self.weight}
        return {**self.source.facts, **training, "samples": self.samples, "seed": self.seed, "shaken": self.shaken}

    @property
    def source(self) -> ModelRecipe:
        return (
            recipe(self.base, path=self.path, dtype=self.dtype, device=self.device) if self.path else recipe(self.base)
        )

    @property
    def capabilities(self) -> frozenset[str]:
        """Those of the base; a trained model may have changed its ways, so its mechanism is no longer known."""
        return self.source.capabilities - {"mechanism"}

    @property
    def revision(self) -> str:
        return digest([self.card.version, self.source.revision, self.dataset.revision, self])

    @property
    def dataset(self) -> Dataset:
        """What it is trained on: other scenes than those that the default seed gives to a run."""
        from karat.datasets.spatial import CocoPairs, GridRelations

        if self.instances:
            return CocoPairs(self.instances, self.images or None, n=self.samples, seed=self.seed)
        return GridRelations(self.samples, seed=self.seed)

    @property
    def kept(self) -> Path:
        """Where the trained adapter is kept, so that every worker and every later run finds it."""
        root = os.environ.get("KARAT_CACHE") or Path.home() / ".cache" / "karat"
        return Path(root) / "lora" / f"{self.revision}.safetensors"

    @property
    def history(self) -> tuple[dict[str, float], ...]:
        """Mean losses of every epoch (`epoch`, `answer`, `auxiliary`), kept with the adapter; none before training."""
        path = self.kept.with_suffix(".json")
        return tuple(json.loads(path.read_text("utf-8"))) if path.is_file() else ()

    def load(self) -> VLM:
        """The base with the adapter merged into its weights; trained first if it was not yet."""
        from karat.protocols.compass.tuning import tuned

        return tuned(self)
