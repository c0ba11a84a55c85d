"""`GridVLM`: how to get the trained LLaVA twin. Importing this loads neither torch nor transformers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from karat.kernel.card import Card
from karat.kernel.errors import BadInput
from karat.models.hub import configuration
from karat.models.twin_recipe import TwinRecipe, twin_card
from karat.models.weights import check_whole

if TYPE_CHECKING:
    from karat.models.vlm_adapter import VLM


@dataclass(frozen=True)
class GridVLM(TwinRecipe):
    """The LLaVA twin. `weights` names another directory made by `karat train gridvlm`; `seed` tells twins
    of one recipe apart (0 ships).

    >>> GridVLM("pure").label
    'gridvlm.pure'
    """

    ending: ClassVar[str] = ""
    card: ClassVar[Card] = twin_card(
        "gridvlm",
        "trained twins gridvlm.pure, .spur: a genuine LLaVA (CLIP tower, Llama decoder), a million parameters",
        departures="the paper's twins are MDETRs; this one answers token by token, like the models it stands for",
        extra="vlm",
    )

    @property
    def capabilities(self) -> frozenset[str]:
        return frozenset({"scores", "gradients", "attention", "activations", "autoregressive", "text", "mechanism"})

    def configuration(self) -> dict[str, Any] | None:
        return configuration(str(self.path), None)

    def load(self) -> VLM:
        from karat.models.gridvlm.build import vocabulary
        from karat.models.vlm import vlm
        from karat.models.vlm_adapter import VLM

        check_whole(self.tensors)
        model = vlm(self.path, name=self.label, mechanism=self.mechanism, max_new_tokens=2)
        assert isinstance(model, VLM)  # llava, which is known
        known = model.processor.tokenizer.get_vocab()
        if known != {token: number for number, token in enumerate(vocabulary())}:
            raise BadInput(
                f"the tokenizer in {self.path} has {len(known)} tokens that are not gridvlm's {len(vocabulary())}: "
                "it belongs to another model. Take tokenizer.json from the directory that the weights came with."
            )
        return model
