"""`GridVLM`: how to get the trained LLaVA twin. Importing this loads neither torch nor transformers."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from annotated_types import Ge

from karat.kernel.card import Card
from karat.kernel.errors import BadInput
from karat.kernel.typing import Scalar
from karat.models.hub import configuration
from karat.models.weights import check_whole, file_revision, find_twin

if TYPE_CHECKING:
    from karat.models.vlm_adapter import VLM

MECHANISMS = {"pure": "reasons", "spur": "matches_words"}


@dataclass(frozen=True)
class GridVLM:
    """The LLaVA twin. `weights` names another directory made by `karat train gridvlm`; `seed` tells twins
    of one recipe apart (0 ships).

    >>> GridVLM("pure").label
    'gridvlm.pure'
    """

    card: ClassVar[Card] = Card(
        name="gridvlm",
        summary="trained twin: a genuine LLaVA (CLIP tower, projector, Llama decoder) of a million parameters",
        kind="model",
        citation="gridvqax2026",
        departures="the paper's twins are MDETRs; this one answers token by token, like the models it stands for",
        extra="vlm",
    )

    variant: Literal["pure", "spur"] = "pure"
    weights: str | None = None
    seed: Annotated[int, Ge(0)] = field(default=0, metadata={"identity": False})  # which weights: their hash counts

    @property
    def label(self) -> str:
        more = ", ".join([f"seed {self.seed}"] * (self.seed > 0) + [self.weights or ""] * (self.weights is not None))
        return f"gridvlm.{self.variant} ({more})" if more else f"gridvlm.{self.variant}"

    @property
    def facts(self) -> dict[str, Scalar]:
        broken = ", ".join(sorted(self.broken_states())) or None
        return {
            "family": "gridvlm",
            "variant": self.variant,
            "weights": self.weights,
            "seed": self.seed,
            "breaks_in": broken,
        }

    @property
    def capabilities(self) -> frozenset[str]:
        return frozenset({"scores", "gradients", "attention", "activations", "autoregressive", "text", "mechanism"})

    @property
    def mechanism(self) -> str:
        return MECHANISMS[self.variant]

    @property
    def path(self) -> Path:
        if self.weights is not None:
            return Path(self.weights)
        return find_twin("gridvlm", self.variant, self.seed)

    def broken_states(self) -> dict[str, str]:
        """Absent states in which these weights no longer answer as they do, with the reason."""
        from karat.models.weights.absence import broken_states

        return broken_states(self.label, self.revision)

    @property
    def revision(self) -> str:
        return file_revision(self.path / "model.safetensors")

    def configuration(self) -> dict[str, Any] | None:
        return configuration(str(self.path), None)

    def load(self) -> VLM:
        from karat.models.gridvlm.build import vocabulary
        from karat.models.vlm import vlm
        from karat.models.vlm_adapter import VLM

        check_whole(self.path / "model.safetensors")
        model = vlm(self.path, name=self.label, mechanism=self.mechanism, max_new_tokens=2)
        assert isinstance(model, VLM)  # llava, which is known
        known = model.processor.tokenizer.get_vocab()
        if known != {token: number for number, token in enumerate(vocabulary())}:
            raise BadInput(
                f"the tokenizer in {self.path} has {len(known)} tokens that are not gridvlm's {len(vocabulary())}: "
                "it belongs to another model. Take tokenizer.json from the directory that the weights came with."
            )
        return model
