"""The six CAMs that are functions of one trace: asked for all of them, the model runs forward and backward once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from karat.explainers.cam import weighing
from karat.explainers.cam.looking import layer_request, named, weighted_cam
from karat.explainers.placing import attributions, wide
from karat.kernel.attribution import Attribution
from karat.kernel.card import Card
from karat.models.torch_model import TorchModel
from karat.probe.request import Request
from karat.probe.session import Session

if TYPE_CHECKING:
    from torch import Tensor

_NEEDS = frozenset({"gradients", "activations"})
_IMAGE, _BOTH = frozenset({"visual"}), frozenset({"visual", "words"})
_WORDS = "words have scores on layers over the joint sequence, by the channel weights of the image: not in the paper"
Sign = Literal["largest", "svd"]


@dataclass(frozen=True)
class GradCam:
    """ReLU(Σ_c w_c A_c), w_c the mean gradient of channel c.

    `layer` is a role or a dotted name: "vision.last" (creg2026), "decoder.7" or its norm (fsyn2026 A.2, which with
    `positive_gradients` averages ReLU(gradient), as its source LLaVA-CAM does). `eigen_smooth` and `aug_smooth` are
    semscore2025's options: first principal component instead of the sum; mean over six views of the image.
    """

    layer: str = "vision.last"
    positive_gradients: bool = False
    eigen_smooth: bool = False
    aug_smooth: bool = False
    card: ClassVar[Card] = Card(
        "cam/gradcam",
        "activations of one layer, each channel weighted by its mean gradient",
        "explainer",
        needs=_NEEDS,
        gives=_BOTH,
        citation="Selvaraju et al. 2017, Grad-CAM",
        departures=_WORDS,
        passes="1",
        extra="vision",
    )

    @property
    def passes(self) -> int:
        return 6 if self.aug_smooth else 1

    def traces(self, model: TorchModel) -> Request:
        return layer_request(model, self.layer)

    def __call__(self, session: Session) -> list[Attribution]:
        weigh = weighing.positive_gradcam if self.positive_gradients else weighing.gradcam
        return weighted_cam(session, self.layer, weigh, self.eigen_smooth, self.aug_smooth)


@dataclass(frozen=True)
class GradCamPlusPlus:
    """ReLU(Σ_c w_c A_c), w_c positive gradients weighted by how much of the answer each place explains."""

    layer: str = "vision.last"
    eigen_smooth: bool = False
    aug_smooth: bool = False
    card: ClassVar[Card] = Card(
        "cam/gradcam_pp",
        "Grad-CAM with higher derivatives: several instances of an object all get weight",
        "explainer",
        needs=_NEEDS,
        gives=_BOTH,
        citation="Chattopadhay et al. 2018, Grad-CAM++",
        departures=_WORDS,
        passes="1",
        extra="vision",
    )

    @property
    def passes(self) -> int:
        return 6 if self.aug_smooth else 1

    def traces(self, model: TorchModel) -> Request:
        return layer_request(model, self.layer)

    def __call__(self, session: Session) -> list[Attribution]:
        return weighted_cam(session, self.layer, weighing.gradcam_pp, self.eigen_smooth, self.aug_smooth)


@dataclass(frozen=True)
class XGradCam:
    """ReLU(Σ_c w_c A_c), w_c the gradient averaged with the activation as weight."""

    layer: str = "vision.last"
    eigen_smooth: bool = False
    aug_smooth: bool = False
    card: ClassVar[Card] = Card(
        "cam/xgradcam",
        "Grad-CAM with weights that keep sensitivity and conservation",
        "explainer",
        needs=_NEEDS,
        gives=_BOTH,
        citation="Fu et al. 2020, Axiom-based Grad-CAM",
        departures=_WORDS,
        passes="1",
        extra="vision",
    )

    @property
    def passes(self) -> int:
        return 6 if self.aug_smooth else 1

    def traces(self, model: TorchModel) -> Request:
        return layer_request(model, self.layer)

    def __call__(self, session: Session) -> list[Attribution]:
        return weighted_cam(session, self.layer, weighing.xgradcam, self.eigen_smooth, self.aug_smooth)


@dataclass(frozen=True)
class LayerCam:
    """ReLU(Σ_c ReLU(G_c) A_c): every place has its own weight."""

    layer: str = "vision.last"
    eigen_smooth: bool = False
    aug_smooth: bool = False
    card: ClassVar[Card] = Card(
        "cam/layercam",
        "activations weighted by their own positive gradient: usable on early layers too",
        "explainer",
        needs=_NEEDS,
        gives=_BOTH,
        citation="Jiang et al. 2021, LayerCAM",
        departures="words have scores on layers over the joint sequence: not in the paper",
        passes="1",
        extra="vision",
    )

    @property
    def passes(self) -> int:
        return 6 if self.aug_smooth else 1

    def traces(self, model: TorchModel) -> Request:
        return layer_request(model, self.layer)

    def __call__(self, session: Session) -> list[Attribution]:
        return weighted_cam(session, self.layer, weighing.layercam, self.eigen_smooth, self.aug_smooth)


@dataclass(frozen=True)
class EigenCam:
    """ReLU of the activations' first principal component. Knows nothing of the answer.

    `sign`: "largest" or "svd", see `karat.explainers.cam.projection`.
    """

    layer: str = "vision.last"
    sign: Sign = "largest"
    passes: ClassVar[int] = 1
    card: ClassVar[Card] = Card(
        "cam/eigencam",
        "the first principal component of one layer: what stands out, whatever the answer",
        "explainer",
        needs=frozenset({"activations"}),
        gives=_IMAGE,
        citation="Muhammad and Yeasin 2020, Eigen-CAM",
        departures="activations are centred, as in pytorch-grad-cam, and the arbitrary sign of a component is fixed",
        passes="1",
        extra="vision",
    )

    def traces(self, model: TorchModel) -> Request:
        return layer_request(model, self.layer, gradients=False)

    def __call__(self, session: Session) -> list[Attribution]:
        layer = named(session.torch_model, self.layer)
        seen = session.trace((layer,), want=("activations",))
        return attributions(session, _component(wide(seen.spatial(layer)), self.sign))


@dataclass(frozen=True)
class EigenGradCam:
    """ReLU of the first principal component of activations times gradients."""

    layer: str = "vision.last"
    sign: Sign = "largest"
    passes: ClassVar[int] = 1
    card: ClassVar[Card] = Card(
        "cam/eigengradcam",
        "the first principal component of activations times gradients",
        "explainer",
        needs=_NEEDS,
        gives=_IMAGE,
        citation="pytorch-grad-cam, EigenGradCAM; semscore2025",
        departures="the arbitrary sign of a component is fixed",
        passes="1",
        extra="vision",
    )

    def traces(self, model: TorchModel) -> Request:
        return layer_request(model, self.layer)

    def __call__(self, session: Session) -> list[Attribution]:
        layer = named(session.torch_model, self.layer)
        seen = session.trace((layer,))
        product = wide(seen.spatial(layer)) * wide(seen.spatial(layer, "gradients"))
        return attributions(session, _component(product, self.sign))


def _component(features: Tensor, sign: Sign) -> Tensor:
    from karat.explainers.cam.projection import first_component

    return first_component(features, sign).clamp(min=0)
