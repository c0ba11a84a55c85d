"""`Family`: an architecture as data. Where its parts are, and how it sees (`Sight`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

from karat.kernel.typing import Image
from karat.models.torch_model import Frame

if TYPE_CHECKING:
    from torch import Tensor

Size = tuple[int, int]  # height and width, or rows and columns


@dataclass(frozen=True)
class View:
    """Image tokens of pixels of one size: `count` of them, of which `order` lie over the image as `grid`, row-major.

    `count` may be larger: a class token, or the tokens of a thumbnail, stand for no place.
    """

    grid: Size
    order: tuple[int, ...]
    count: int


class Sight(Protocol):
    """From images to tokens. Pixels are always (n, 3, H, W), however the architecture cuts them up inside.

    Everything else is a function of (H, W), so samples with pixels of one size make a batch.
    """

    def size(self, processor: Any, height: int, width: int) -> Size:
        """(H, W) of the pixels that an image of that size becomes."""
        ...

    def pixels(self, processor: Any, images: Sequence[Image]) -> tuple[Tensor, Mapping[str, Tensor]]:
        """Pixels (n, 3, H, W) of images whose `size` is the same, and whatever else `features` needs, batch first."""
        ...

    def frame(self, processor: Any, height: int, width: int) -> Frame | None:
        """The part of an image that its pixels show; None where that is unknown."""
        ...

    def view(self, module: Any, size: Size) -> View: ...

    def features(self, module: Any, pixels: Tensor, other: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """What the decoder gets: "features" (n, count, width), and "deep" (n, layers, count, width) if it is also fed
        to later layers. Differentiable."""
        ...

    def by_sample(self, module: Any, layer: str, recording: Tensor, n: int, size: Size) -> Tensor:
        """A recording of a layer of the vision tower on n samples, one row each: (n, tokens, width), the patches first
        and row-major; or (n, c, h, w) of a convolution."""
        ...

    def as_run(self, module: Any, layer: str, states: Tensor, size: Size) -> Tensor:
        """The inverse: (n, tokens, width) as the tower runs over them."""
        ...

    def patches(self, module: Any, size: Size) -> Size | None:
        """(rows, columns) of the patches with which `by_sample` starts; None if the layer's own shape tells."""
        ...


@dataclass(frozen=True)
class Family:
    """Dotted names inside the module, how the image is written into the prompt, how positions count.

    `image` is the text that a processor puts for its image token: {tokens} is that token `View.count` times, {start}
    and {end} are the tokenizer's. `positions`: "sequence", or "grid" where visual tokens have a row and a column
    (M-RoPE). `bidirectional_image`: image tokens attend to each other whatever their order. `before_mlp` is the norm
    between attention and MLP of a decoder layer.
    """

    vision: str
    vision_layers: str
    sight: Sight
    decoder: str = "model.language_model"
    decoder_layers: str = "model.language_model.layers"
    attention: str = "self_attn"  # inside a decoder layer
    before_mlp: str = "post_attention_layernorm"
    words: str = "model.language_model.embed_tokens"
    head: str = "lm_head"
    image: str = "{tokens}"
    positions: Literal["sequence", "grid"] = "sequence"
    bidirectional_image: bool = False
