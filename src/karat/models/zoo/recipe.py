"""Recipe `zoo`: a model of the zoo, with weights from this machine where they are, else from the hub."""

from __future__ import annotations

import dataclasses
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlparse

from karat.kernel.card import Card
from karat.kernel.errors import BadInput, KaratError, UnknownName
from karat.kernel.identity import digest
from karat.kernel.registry import build
from karat.kernel.roles import DescribesInput, HasVocabulary, Model, ModelRecipe, plays
from karat.kernel.typing import Scalar
from karat.models.local_weights import local_weights
from karat.models.zoo.entries import Entry, entries


@dataclass(frozen=True)
class ZooRecipe:
    """`zoo.NAME` in a spec.

    Attributes:
        variant: The name of an entry.
        file: A zoo file of your own.
        weights: A file or directory instead of the usual place, which is `$KARAT_WEIGHTS/NAME/` (by default
            ~/.cache/karat/weights/NAME/).
        random: Leaves the weights at random numbers, to try a spec without them.
    """

    card: ClassVar[Card] = Card(
        "zoo", "a model of the zoo by name: zoo.NAME (listed below)", "model", extra="vision", citation="semscore2025"
    )
    variant: str = ""
    file: str | None = None
    weights: str | None = None
    random: bool = False

    @property
    def entry(self) -> Entry:
        known = entries(self.file)
        if self.variant not in known:
            raise UnknownName("zoo model", self.variant, known)
        return known[self.variant]

    @property
    def label(self) -> str:
        return f"{self.variant} (random)" if self.random else self.variant

    @property
    def facts(self) -> dict[str, Scalar]:
        own: dict[str, Scalar] = {"family": "zoo", "variant": self.variant, "task": self.entry.task}
        return {**self.inner.facts, **own, "random": self.random}

    @property
    def capabilities(self) -> frozenset[str]:
        return self.inner.capabilities

    @property
    def revision(self) -> str:
        """What the entry says is part of it: other parameters, other model."""
        return f"{digest(dataclasses.asdict(self.entry))}:{self.inner.revision}"

    def sees(self) -> str:
        inner = self.inner
        if plays(inner, DescribesInput):
            return inner.sees()
        return f"the image at {self.entry.input} px, as its processor does"

    def vocabulary(self) -> tuple[str, ...]:
        inner = self.inner
        return inner.vocabulary() if plays(inner, HasVocabulary) else ()

    @property
    def place(self) -> Path:
        """Where weights of this entry are looked for."""
        usual = os.environ.get("KARAT_WEIGHTS", "~/.cache/karat/weights")
        return Path(self.weights or usual).expanduser() / ("" if self.weights else self.variant)

    @property
    def inner(self) -> ModelRecipe:
        """The recipe that the entry stands for."""
        entry = self.entry
        parameters: dict[str, Any] = dict(entry.parameters)
        if parameters.get("labels") == "coco-stuff":
            from karat.datasets.segmentation.coco_stuff import labels

            parameters["labels"] = tuple(labels().values())
        fields = {field.name for field in dataclasses.fields(_recipe_class(entry.model))}
        if not self.random and "weights" not in parameters:
            parameters |= _located(self.place, fields, parameters)
        built: ModelRecipe = build("model", entry.model, parameters)
        return built

    def to_fetch(self) -> str | None:
        packed = self.entry.parameters.get("weights")
        if packed is not None:
            try:
                local_weights(packed)
            except BadInput as error:
                return str(error)
            return None
        here = self.place.is_file() or (self.place.is_dir() and any(self.place.iterdir()))
        if self.random or here or all(_cached(address) for address in self.entry.fetch):
            return None
        return f"{' and '.join(self.entry.fetch)} into {self.place}/; else the hub is asked when the run starts"

    def load(self) -> Model:
        try:
            loaded = self.inner.load()
        except KaratError as error:
            raise BadInput(f"{self.variant}: {error} {self._instead()}") from None
        except Exception as error:  # every library says "no network" in its own words
            reason = f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"
            raise BadInput(f"{self.variant}: its weights could not be fetched ({reason}). {self._instead()}") from None
        return dataclasses.replace(loaded, name=self.label) if dataclasses.is_dataclass(loaded) else loaded

    def _instead(self) -> str:
        """What to do on a machine that cannot reach the hub."""
        if not self.entry.fetch:
            return ""
        text = f"Where there is no network: download {' and '.join(self.entry.fetch)} and put it into {self.place}/."
        if "config.json" not in text:
            return text
        return f"{text} (If there is no model.safetensors, transformers' `save_pretrained` makes one of what there is.)"


def _cached(address: str) -> bool:
    """Whether the libraries have fetched that address before."""
    place = urlparse(address.split()[0])
    if place.netloc == "huggingface.co":
        from huggingface_hub import try_to_load_from_cache

        owner, name = place.path.strip("/").split("/")[:2]
        return isinstance(try_to_load_from_cache(f"{owner}/{name}", "model.safetensors"), str)
    if place.netloc == "download.pytorch.org":
        import torch

        return (Path(torch.hub.get_dir()) / "checkpoints" / Path(place.path).name).is_file()
    return False


def _recipe_class(name: str) -> Any:
    from karat.kernel.registry import find

    return find("model", name)


def _located(place: Path, fields: set[str], parameters: dict[str, Any]) -> dict[str, Any]:
    """Parameters that make a recipe read local weights if there are any, else those of the hub."""
    if place.is_dir() and (place / "config.json").is_file():  # a model of transformers, whole
        field = next(name for name in ("path", "architecture") if name in fields)
        library, colon, _ = str(parameters.get(field, "")).rpartition(":")
        return {field: f"{library}{colon}{place}"}
    files = [place] if place.is_file() else sorted(p for s in ("safetensors", "pth") for p in place.glob(f"*.{s}"))
    if len(files) > 1:
        raise BadInput(f"{place} holds several files of weights ({', '.join(f.name for f in files)}); leave one.")
    if files and "weights" in fields:
        return {"weights": str(files[0])}
    return {"pretrained": True} if "pretrained" in fields else {}
