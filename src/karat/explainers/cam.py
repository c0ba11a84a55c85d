"""Class activation maps: the activations A (n, c, h, w) of one layer, weighted and added up.

A CAM that needs nothing but one trace is one entry below: a card and the formula of its weights. All else (parameters,
what is traced, what it costs, words, smoothing) is `WeightedCam`'s, so all of them together cost one forward and one
backward pass. No torch at import; what needs it is in `cam_tensors`.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from annotated_types import Ge, Gt, Le

from karat.explainers.to_attribution import at_text, attributions, in_sequence, wide
from karat.kernel.attribution import Attribution
from karat.kernel.card import Card
from karat.kernel.constraints import checked
from karat.kernel.errors import BadInput
from karat.kernel.typing import Space
from karat.models.torch_model import TorchModel
from karat.probe.request import Request
from karat.probe.session import Session

if TYPE_CHECKING:
    from torch import Tensor

    from karat.probe.trace import Trace

Sign = Literal["largest", "svd"]
NEGATIVE, LEAST = "negative_activations", "least_activation"  # notes of a CAM about the layer it read
VIEWS = 6  # of augmentation smoothing
CHANNELS = 512  # of a usual last layer: what asking about each is forecast to cost; `Attribution.passes` is exact
_card = partial(Card, kind="explainer", needs=frozenset({"gradients", "activations"}), passes="1", extra="vision")
_ON_WORDS = "words have scores on layers over the joint sequence"
_of_both = partial(_card, gives=frozenset({"visual", "words"}), departures=f"{_ON_WORDS}: not in the paper")
_by_channel = partial(_of_both, departures=f"{_ON_WORDS}, by the channel weights of the image: not in the paper")
_of_image = partial(_card, gives=frozenset({"visual"}))


@dataclass(frozen=True)
@checked
class LayerMap:
    """What every CAM has: a layer, and a trace of it. Gradients are traced where the card needs them."""

    layer: str = "vision.last"
    card: ClassVar[Card]

    @property
    def passes(self) -> int:
        return 1

    def traces(self, model: TorchModel) -> Request:
        return Request.of(model.layers, (self._named(model),), self._recordings, ())

    def recorded(self, session: Session) -> tuple[Trace, str]:
        """The shared trace, and the layer's name in it."""
        layer = self._named(session.torch_model)
        return session.trace((layer,), want=self._recordings), layer

    def drawn(
        self, session: Session, trace: Trace, layer: str, maps: Tensor, words: Tensor | None = None,
        space: Space = "patch", passes: float = 1.0,
    ) -> list[Attribution]:  # fmt: skip
        """Attributions that also say how signed the layer is, sample by sample: CAMs are made for layers that an
        activation has made non-negative."""
        made = attributions(session, maps, words, space=space, passes=passes)
        states = trace.spatial(layer).flatten(1)
        negative, least = (states < 0).float().mean(1).tolist(), states.amin(1).tolist()
        return [
            replace(one, notes={NEGATIVE: share, LEAST: low})
            for one, share, low in zip(made, negative, least, strict=True)
        ]

    @property
    def _recordings(self) -> tuple[str, ...]:
        return ("activations", "gradients") if "gradients" in self.card.needs else ("activations",)

    def _named(self, model: TorchModel) -> str:
        if self.layer == "vision.last" and self.layer not in model.layers:
            roles = ", ".join(model.layers) or "none"
            raise BadInput(
                f"{model.name!r} does not say which layer is its last with a map (roles: {roles}); name one."
            )
        return self.layer


@dataclass(frozen=True)
class WeightedCam(LayerMap):
    """ReLU(Σ_c w_c A_c), the weights w a function of activations and gradients.

    Args:
        layer: a role ("vision.last", "decoder.7") or a dotted name in the model's module.
        eigen_smooth: the first principal component of w_c A_c instead of the sum (semscore2025).
        aug_smooth: the mean over six views of the image, flipped and dimmed or brightened (semscore2025).

    Called with a `Session` of n samples it returns n attributions: a map of the layer's cells (with `aug_smooth` of
    pixels) and, on layers over the joint sequence, one score per word.

    Example:
        >>> import karat
        >>> [sample] = karat.datasets.grid.generate("D1_M_F0_d0.3", 1)
        >>> model = karat.load_model("gridprog.pure")
        >>> XGradCam()(karat.probe.Session(model, [sample]))[0].visual.shape
        (6, 6)
    """

    _: KW_ONLY
    eigen_smooth: bool = False
    aug_smooth: bool = False

    @property
    def passes(self) -> int:
        return VIEWS if self.aug_smooth else 1

    def weights(self, activations: Tensor, gradients: Tensor) -> Tensor:
        """What broadcasts over activations (n, c, h, w): (n, c, 1, 1), or a weight for every place."""
        raise NotImplementedError

    def __call__(self, session: Session) -> list[Attribution]:
        trace, layer = self.recorded(session)

        def draw(trace: Trace) -> Tensor:
            activations, gradients = wide(trace.spatial(layer)), wide(trace.spatial(layer, "gradients"))
            return summed(self.weights(activations, gradients) * activations, self.eigen_smooth)

        if self.aug_smooth:
            from karat.explainers.cam_tensors import over_views

            views = over_views(session, layer, trace, draw)
            return self.drawn(session, trace, layer, views, space="pixel", passes=VIEWS)
        words = None if self.eigen_smooth else self._at_words(session, trace, layer)
        return self.drawn(session, trace, layer, draw(trace), words)

    def _at_words(self, session: Session, trace: Trace, layer: str) -> Tensor | None:
        """(n, T) the same sum at the text tokens, where the layer has any. Weights per channel are the image's."""
        if not in_sequence(session, trace, layer):
            return None
        states, slopes = at_text(session, trace.activations[layer]), at_text(session, trace.gradients[layer])
        if states is None or slopes is None:
            return None
        states, slopes = wide(states).transpose(1, 2), wide(slopes).transpose(1, 2)  # (n, c, T)
        weights = self.weights(wide(trace.spatial(layer)), wide(trace.spatial(layer, "gradients")))
        if weights.shape[2:] != (1, 1):
            weights = self.weights(states[..., None], slopes[..., None])
        return (weights[..., 0] * states).sum(1).clamp(min=0)


@dataclass(frozen=True)
class GradCam(WeightedCam):
    """ReLU(Σ_c w_c A_c), w_c the mean gradient of channel c.

    creg2026 reads "vision.last"; fsyn2026 A.2 "decoder.7" or its norm, with `positive_gradients`: the mean of
    ReLU(gradient), as its source LLaVA-CAM has it. Other parameters: `WeightedCam`.
    """

    positive_gradients: bool = False
    card: ClassVar[Card] = _by_channel(
        "cam/gradcam",
        "activations of one layer, each channel weighted by its mean gradient",
        citation="Selvaraju et al. 2017, Grad-CAM",
    )

    def weights(self, activations: Tensor, gradients: Tensor) -> Tensor:
        slopes = gradients.clamp(min=0) if self.positive_gradients else gradients
        return slopes.mean((2, 3), keepdim=True)  # Selvaraju et al. 2017, Eq. 1


class GradCamPlusPlus(WeightedCam):
    """ReLU(Σ_c w_c A_c), w_c positive gradients weighted by how much of the answer each place explains."""

    card: ClassVar[Card] = _by_channel(
        "cam/gradcam_pp",
        "Grad-CAM with higher derivatives: several instances of an object all get weight",
        citation="Chattopadhay et al. 2018, Grad-CAM++",
    )

    def weights(self, activations: Tensor, gradients: Tensor) -> Tensor:
        """Chattopadhay et al. 2018, Eq. 19: higher derivatives of exp(y) are powers of the first."""
        squared = gradients**2
        below = 2 * squared + activations.sum((2, 3), keepdim=True) * squared * gradients
        return (gradients.clamp(min=0) * squared / (below + 1e-6)).sum((2, 3), keepdim=True)


class XGradCam(WeightedCam):
    """ReLU(Σ_c w_c A_c), w_c the gradient averaged with the activation as weight."""

    card: ClassVar[Card] = _by_channel(
        "cam/xgradcam",
        "Grad-CAM with weights that keep sensitivity and conservation",
        citation="Fu et al. 2020, Axiom-based Grad-CAM",
    )

    def weights(self, activations: Tensor, gradients: Tensor) -> Tensor:
        """Fu et al. 2020, Eq. 8: gradients weighted by the share of activation at each place."""
        return (gradients * activations).sum((2, 3), keepdim=True) / (activations.sum((2, 3), keepdim=True) + 1e-7)


class LayerCam(WeightedCam):
    """ReLU(Σ_c ReLU(G_c) A_c): every place has its own weight."""

    card: ClassVar[Card] = _of_both(
        "cam/layercam",
        "activations weighted by their own positive gradient: usable on early layers too",
        citation="Jiang et al. 2021, LayerCAM",
    )

    def weights(self, activations: Tensor, gradients: Tensor) -> Tensor:
        return gradients.clamp(min=0)  # Jiang et al. 2021, Eq. 6


class HiResCam(WeightedCam):
    """ReLU(Σ_c G_c A_c): every place weighs by its own gradient, so where a linear layer reads the maps they add up to
    the score."""

    card: ClassVar[Card] = _of_both(
        "cam/hirescam",
        "activations times their gradient, place by place: what the model used there, not an average over places",
        citation="Draelos and Carin 2020, HiResCAM",
    )

    def weights(self, activations: Tensor, gradients: Tensor) -> Tensor:
        return gradients


@dataclass(frozen=True)
class EigenCam(LayerMap):
    """ReLU of the activations' first principal component. Knows nothing of the answer.

    `sign`: a component has two directions. "largest" makes its largest entry positive, "svd" is pytorch-grad-cam's; see
    `karat.explainers.cam_tensors.first_component`.
    """

    sign: Sign = "largest"
    card: ClassVar[Card] = _of_image(
        "cam/eigencam",
        "the first principal component of one layer: what stands out, whatever the answer",
        needs=frozenset({"activations"}),
        citation="Muhammad and Yeasin 2020, Eigen-CAM",
        departures="activations are centred, as in pytorch-grad-cam, and the arbitrary sign of a component is fixed",
    )

    def features(self, trace: Trace, layer: str) -> Tensor:
        return wide(trace.spatial(layer))

    def __call__(self, session: Session) -> list[Attribution]:
        from karat.explainers.cam_tensors import first_component

        trace, layer = self.recorded(session)
        maps = first_component(self.features(trace, layer), self.sign).clamp(min=0)
        return self.drawn(session, trace, layer, maps)


class EigenGradCam(EigenCam):
    """ReLU of the first principal component of activations times gradients. `sign` as for `EigenCam`."""

    card: ClassVar[Card] = _of_image(
        "cam/eigengradcam",
        "the first principal component of activations times gradients",
        citation="pytorch-grad-cam, EigenGradCAM; semscore2025",
        departures="the arbitrary sign of a component is fixed",
    )

    def features(self, trace: Trace, layer: str) -> Tensor:
        return wide(trace.spatial(layer)) * wide(trace.spatial(layer, "gradients"))


class ChannelCam(LayerMap):
    """ReLU(Σ_c w_c A_c), the weights w from forward passes about each channel."""

    eigen_smooth: bool

    @property
    def passes(self) -> int:
        return CHANNELS

    def channel_weights(self, session: Session, trace: Trace, layer: str) -> tuple[Tensor, int]:
        """(n, c) weights, and how many rows were asked about in all."""
        raise NotImplementedError

    def __call__(self, session: Session) -> list[Attribution]:
        trace, layer = self.recorded(session)
        weights, rows = self.channel_weights(session, trace, layer)
        maps = summed(weights[..., None, None] * wide(trace.spatial(layer)), self.eigen_smooth)
        return self.drawn(session, trace, layer, maps, passes=1 + rows / max(len(session.samples), 1))


@dataclass(frozen=True)
class ScoreCam(ChannelCam):
    """ReLU(Σ_c w_c A_c), w = softmax over channels of the raw score of pixels times the upsampled channel in [0, 1].

    Channels that are flat mask everything and are asked about once per sample. `batch_size`: masked images in memory at
    once; `eigen_smooth` as for `WeightedCam`.
    """

    eigen_smooth: bool = False
    batch_size: Annotated[int, Ge(1)] = 32
    card: ClassVar[Card] = _of_image(
        "cam/scorecam",
        "activations of one layer, each channel weighted by the score of the image seen through it",
        needs=frozenset({"activations"}),
        citation="Wang et al. 2020, Score-CAM",
        departures="the score of the empty image is not subtracted: the softmax cancels it",
        passes="channels",
    )

    def channel_weights(self, session: Session, trace: Trace, layer: str) -> tuple[Tensor, int]:
        from karat.explainers.cam_tensors import scores_through_channels

        scores, rows = scores_through_channels(session, wide(trace.spatial(layer)), self.batch_size)
        return scores.softmax(1), rows


@dataclass(frozen=True)
class AblationCam(ChannelCam):
    """ReLU(Σ_c w_c A_c), w_c = (y - y without channel c) / |y|.

    With `ratio` < 1 only the channels that lie most, and those that lie least, on what stands out are asked about, that
    share of each; the others weigh nothing (semscore2025 takes .02). `variant`: in the paper an absent channel is 0;
    in pytorch-grad-cam, which semscore2025 uses, it is 1e7 or more below the smallest activation, unless that is 0, and
    the fall is divided by y itself, which turns the map of a class with a negative logit round.
    `batch_size`: channels asked about at once; `eigen_smooth` as for `WeightedCam`.
    """

    ratio: Annotated[float, Gt(0), Le(1)] = 1.0
    variant: Literal["paper", "released"] = "paper"
    eigen_smooth: bool = False
    batch_size: Annotated[int, Ge(1)] = 64
    card: ClassVar[Card] = _of_image(
        "cam/ablationcam",
        "activations of one layer, each channel weighted by the fall of the score without it",
        needs=frozenset({"activations"}),
        citation="Desai and Ramaswamy 2020, Ablation-CAM",
        departures="divided by |y|: by y, the map of a class with a negative logit would be turned round; an absent "
        'channel is 0; variant="released" is as in pytorch-grad-cam',
        passes="channels",
    )

    def channel_weights(self, session: Session, trace: Trace, layer: str) -> tuple[Tensor, int]:
        from karat.explainers.cam_tensors import falls_without_channels

        released = self.variant == "released"
        return falls_without_channels(session, trace, layer, self.ratio, released, self.batch_size)


def summed(weighted: Tensor, eigen_smooth: bool) -> Tensor:
    """(n, c, h, w) to (n, h, w): the sum over channels or their first component, negative parts dropped."""
    if not eigen_smooth:
        return weighted.sum(1).clamp(min=0)
    from karat.explainers.cam_tensors import first_component

    return first_component(weighted).clamp(min=0)
