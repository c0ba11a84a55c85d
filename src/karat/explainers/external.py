"""External explanations: maps on disk, captum, pytorch-grad-cam. They are scored like any other.

Objects of captum and pytorch-grad-cam explain a module with one output: `Answered`, which gives the raw score of the
sample's answer for pixels (m, 3, H, W). It is what `make` is called with; `answered.inner` is the model's own module,
where layers are found.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from karat.datasets.arrays import file_hash, load_archive
from karat.explainers.to_attribution import attributions
from karat.kernel.attribution import Attribution
from karat.kernel.card import Card
from karat.kernel.constraints import checked
from karat.kernel.errors import BadInput, ExtraMissing, KaratError
from karat.kernel.identity import digest
from karat.kernel.registry import load_object
from karat.kernel.typing import Map
from karat.probe.session import Session

if TYPE_CHECKING:
    from torch import Tensor, nn

_card = partial(Card, kind="explainer", gives=frozenset({"visual"}))


@dataclass(frozen=True)
@checked
class Saved:
    """Maps (h, w) that somebody saved: `path` is an .npz with a map under every sample's id, or a folder of `<id>.npy`.

    An .npy (n, h, w) is taken to be in the order of the samples whose ids are numbers (datasets `arrays`). Slashes in
    ids are underscores in file names. Maps with channels (c, h, w) are added up; `signed` says what negatives mean.
    """

    path: str
    signed: bool = False
    card: ClassVar[Card] = _card("elsewhere/saved", "maps that are already on disk, found by the sample's id")
    passes: ClassVar[int] = 0

    def __call__(self, session: Session) -> list[Attribution]:
        map_of = self._reader()
        return [Attribution(_one_map(map_of(sample.id), sample.id), signed=self.signed) for sample in session.samples]

    @cached_property
    def revision(self) -> str:
        """Hash of the maps, so that other maps at the same place run again."""
        where = Path(self.path)
        files = sorted(where.glob("*.npy")) if where.is_dir() else [where]
        if not files or not all(file.is_file() for file in files):
            raise BadInput(f"elsewhere/saved: there are no maps at {self.path}.")
        return digest([[file.name, file_hash(file)] for file in files])

    def _reader(self) -> Callable[[str], np.ndarray[Any, Any]]:
        where = Path(self.path)
        if where.is_dir():
            return lambda name: _read(where / f"{name.replace('/', '_')}.npy", name)
        loaded = _read(where, "all samples")
        if isinstance(loaded, np.ndarray):
            return lambda name: _by_number(loaded, name, self.path)
        return lambda name: _member(loaded, name, self.path)


@dataclass(frozen=True)
@checked
class FromCaptum:
    """Any attribution class of captum: `method` is its name in `captum.attr`, or `package.module:make`.

    `make(answered)` gives the attribution object; `layer` (a dotted name in the model's module) is its second argument
    where given. `options` go to its `attribute`. Channels are added. Random methods are seeded by the sample.
    """

    method: str = "Saliency"
    layer: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    card: ClassVar[Card] = _card(
        "elsewhere/captum",
        "any attribution object of captum",
        needs=frozenset({"gradients"}),
        passes="of the method",
        extra="vision",
    )

    def __call__(self, session: Session) -> list[Attribution]:
        make = _maker("captum.attr", self.method)

        def explain(answered: Any, pixels: Tensor) -> Tensor:
            method = make(answered) if self.layer is None else make(answered, _layer(answered, self.layer))
            return method.attribute(pixels, **self.options)

        return explain_module(session, explain, signed=True)


@dataclass(frozen=True)
@checked
class FromGradCam:
    """Any class of pytorch-grad-cam: `method` is its name in `pytorch_grad_cam`, or `package.module:make`.

    `make(model=answered, target_layers=[layer])` gives the object; `layer` is by default what CAMs read of this model.
    """

    method: str = "GradCAM"
    layer: str = "vision.last"
    card: ClassVar[Card] = _card(
        "elsewhere/grad_cam",
        "any CAM object of pytorch-grad-cam",
        needs=frozenset({"gradients", "activations"}),
        passes="of the method",
        departures="its maps are scaled to [0, 1] and resized to the model's pixels by its own code",
    )

    def __call__(self, session: Session) -> list[Attribution]:
        make = _maker("pytorch_grad_cam", self.method)
        name = session.torch_model.layers.get(self.layer, self.layer)

        def explain(answered: Any, pixels: Tensor) -> Tensor:
            import torch

            with make(model=answered, target_layers=[_layer(answered, name)]) as cam:
                maps = cam(input_tensor=pixels, targets=[_itself])
            return torch.from_numpy(np.asarray(maps))[:, None]

        return explain_module(session, explain, signed=False)


def explain_module(session: Session, explain: Callable[[Any, Tensor], Tensor], signed: bool) -> list[Attribution]:
    """Attributions of `explain(answered, pixels (1, 3, H, W)) -> (1, c, h, w)`, sample by sample.

    The module is left as it was found: libraries differ in what they clean up. Forward passes are counted.
    """
    import torch

    from karat.probe.inputs import take

    made = []
    for i in range(len(session.samples)):
        only = session.only(i)
        answered = _answered(only, take)
        seed = int(session.rng(i, "explainers/elsewhere").integers(2**31))
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            torch.manual_seed(seed)
            maps = explain(answered, only.inputs.pixels.detach().clone())
        for weight in answered.parameters():
            weight.grad = None
        if maps.ndim != 4 or len(maps) != 1:
            raise BadInput(f"an explanation must be (1, c, h, w) for one sample; got {tuple(maps.shape)}.")
        made += attributions(only, maps.detach().sum(1), space="pixel", signed=signed, passes=float(answered.passes))
    return made


def _answered(session: Session, take: Callable[[Any, Tensor], Any]) -> Any:
    """The model as a module: pixels (m, 3, H, W) in, the raw score (m,) of the session's one answer out."""
    from dataclasses import replace

    import torch
    from torch import nn

    model, inputs, targets = session.torch_model, session.inputs, session.targets

    class Answered(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = model.module
            self.passes = 0
            self.training = model.module.training

        def forward(self, pixels: Tensor) -> Tensor:
            m = len(pixels)
            self.passes += m
            rows = take(inputs, torch.zeros(m, dtype=torch.long, device=inputs.pixels.device))
            return model.readout(replace(rows, pixels=pixels), targets * m)

    return Answered()


def _itself(output: Tensor) -> Tensor:
    return output


def _layer(answered: Any, name: str) -> nn.Module:
    from karat.models.structure import submodule

    return submodule(answered.inner, name)


def _maker(library: str, method: str) -> Callable[..., Any]:
    if ":" not in method:
        try:
            return load_object(f"{library}:{method}")
        except KaratError as error:
            if isinstance(error.__cause__, ModuleNotFoundError):
                raise ExtraMissing(f"elsewhere: {method}", library.partition(".")[0], "dev") from error
            raise
    return load_object(method)


def _read(path: Path, what: str) -> Any:
    try:
        return load_archive(path, "elsewhere/saved") if path.suffix == ".npz" else np.load(path, allow_pickle=False)
    except KaratError:
        raise
    except FileNotFoundError:
        raise BadInput(f"elsewhere/saved: no map of {what} at {path}.") from None
    except Exception:  # a damaged header raises whatever it likes
        raise BadInput(f"elsewhere/saved: {path} is no plain .npy or .npz. Save with numpy.save or savez.") from None


def _by_number(maps: np.ndarray[Any, Any], name: str, path: str) -> np.ndarray[Any, Any]:
    if not name.isdigit() or int(name) >= len(maps):
        raise BadInput(f"elsewhere/saved: {path} holds {len(maps)} maps by number; the sample is called {name!r}.")
    return maps[int(name)]


def _member(maps: Mapping[str, np.ndarray[Any, Any]], name: str, path: str) -> np.ndarray[Any, Any]:
    if name not in maps:
        raise BadInput(f"elsewhere/saved: {path} holds no map called {name!r}; it has {', '.join(list(maps)[:3])}...")
    return maps[name]


def _one_map(saved: np.ndarray[Any, Any], name: str) -> Map:
    values = np.asarray(saved, dtype=np.float64)
    values = values.sum(axis=0) if values.ndim == 3 else values
    if values.ndim != 2:
        raise BadInput(f"elsewhere/saved: the map of {name} must be (h, w) or (c, h, w); got {saved.shape}.")
    return values
