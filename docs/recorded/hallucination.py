"""Why does it say yes to what is not there? Writes hallucination.json beside this file, docs/images/hallucination.png.

    python docs/recorded/hallucination.py WEIGHTS POPE IMAGES INSTANCES

WEIGHTS is an organism file of `photovlm.coco` (`karat train skills`), POPE the folder of RePOPE's annotations, IMAGES
COCO's pictures, INSTANCES its boxes. Only pictures that the model was not trained on are asked about. The photographs
are not ours to publish: the picture shows boxes and maps alone.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageDraw

from karat.datasets.spatial.coco import Picture, read_instances
from karat.datasets.vqa import RePOPE
from karat.kernel.attribution import Attribution, Subject, resize_maps
from karat.kernel.attribution_picture import sheet
from karat.kernel.registry import build
from karat.kernel.roles import Model
from karat.kernel.sample import Sample
from karat.metrics.localization import corrected_mass
from karat.models import load_model
from karat.models.photovlm.skills import held_out
from karat.probe.session import Session

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Yes:
    """A yes, its map, and what is left of it without the picture, without the object's name, without either."""

    sample: Sample
    picture: Picture
    map: Attribution
    full: float
    no_picture: float
    no_name: float

    @property
    def right(self) -> bool:
        return self.sample.answer == "yes"

    @property
    def word(self) -> str:
        """The word of the question that speaks most for yes."""
        assert self.map.words is not None
        first, last = self.sample.words[int(np.argmax(self.map.words))]
        return (self.sample.text or "")[first:last]

    def boxes(self) -> list[tuple[str, np.ndarray]]:
        """Things of the picture with their masks."""
        height, width = self.sample.size
        across, down = width / self.picture.size[0], height / self.picture.size[1]
        masks = []
        for thing in self.picture.things:
            x, y, w, h = thing.box
            mask = np.zeros((height, width), bool)
            mask[int(y * down) : round((y + h) * down), int(x * across) : round((x + w) * across)] = True
            masks.append((thing.name, mask))
        return masks

    def positive(self) -> np.ndarray:
        assert self.map.visual is not None
        return resize_maps(np.maximum(self.map.visual, 0)[None].astype(float), *self.sample.size)[0]

    def strongest(self) -> str:
        """The smallest box that the strongest cell lies in; "nothing annotated" where there is none."""
        row, column = np.unravel_index(self.positive().argmax(), self.sample.size)
        there = [(mask.sum(), name) for name, mask in self.boxes() if mask[row, column]]
        return min(there)[1] if there else "nothing annotated"

    def on_object(self) -> float:
        """How much of the map lies on the object beyond what its area earns; NaN where it has no box."""
        own = [mask for name, mask in self.boxes() if name == self.sample.meta["object"]]
        if not own or self.positive().sum() == 0:
            return float("nan")
        return float(corrected_mass(self.positive()[None], np.logical_or.reduce(own)[None])[0])


def explained(model: Model, sample: Sample, picture: Picture) -> Yes:
    """Leave-one-out over the model's patches in cells of 8 × 8, and over the words."""
    session = Session(model, [sample], ["yes"])
    [one] = build("explainer", "perturbation/leave_one_out", {"visual": (8, 8)})(session)
    game = session.game(0, visual=(8, 8))
    name = str(sample.meta["object"]).split()
    words = [(sample.text or "")[a:b] for a, b in sample.words]
    every, none = np.ones((1, game.n_visual), bool), np.zeros((1, game.n_visual), bool)
    all_words = np.ones((1, game.n_text), bool)
    without = all_words & ~np.isin(words, name)[None]
    full, blind, unnamed = (
        float(game.value(visual, text)[0]) for visual, text in ((every, all_words), (none, all_words), (every, without))
    )
    session.close()
    named = replace(one, of=Subject(sample, "yes", model.name, "leave-one-out"))
    return Yes(sample, picture, named, full, blind, unnamed)


def outlines(yes: Yes) -> Sample:
    """The sample with boxes and names on grey where its photograph was."""
    height, width = yes.sample.size
    page = Image.new("RGB", (width, height), (225, 225, 225))
    pen = ImageDraw.Draw(page)
    for name, mask in yes.boxes():
        ys, xs = np.nonzero(mask)
        if len(ys):
            pen.rectangle((xs.min(), ys.min(), xs.max(), ys.max()), outline=(70, 70, 70), width=2)
            pen.text((xs.min() + 4, ys.min() + 2), name, fill=(20, 20, 20), font_size=max(12, width // 28))
    return replace(yes.sample, image=np.asarray(page))


def draw(pair: Sequence[Yes]) -> None:
    """A wrong yes and a right one beside it."""
    maps = []
    for yes in pair:
        kind = "right" if yes.right else "wrong"
        subject = Subject(outlines(yes), "yes", f"a {kind} yes, P = {yes.full:.2f}", "leave-one-out")
        maps.append(replace(yes.map, of=subject))
    made = sheet(maps)
    (HERE.parent / "images" / "hallucination.png").write_bytes(replace(made, heading="").png(1.6))


def example(wrong: Sequence[Yes], right: Sequence[Yes]) -> list[Yes]:
    """The surest wrong yes that needs its picture, and the surest right yes about the same object, else about any."""
    first = max(wrong, key=lambda yes: yes.full - yes.no_picture)
    same = [yes for yes in right if yes.sample.meta["object"] == first.sample.meta["object"]] or list(right)
    return [first, max(same, key=lambda yes: yes.full - yes.no_picture)]


def summary(yeses: Sequence[Yes]) -> dict[str, object]:
    on = np.array([yes.on_object() for yes in yeses])
    known = on[~np.isnan(on)]
    strongest = [yes.strongest() for yes in yeses]
    return {
        "n": len(yeses),
        "yes": round(float(np.mean([yes.full for yes in yeses])), 3),
        "without the picture": round(float(np.mean([yes.no_picture for yes in yeses])), 3),
        "without the name": round(float(np.mean([yes.no_name for yes in yeses])), 3),
        "kept without the picture": sum(yes.no_picture > 0.5 for yes in yeses),
        "strongest word is the name": sum(yes.word in str(yes.sample.meta["object"]).split() for yes in yeses),
        "strongest cell on the object": sum(
            name == yes.sample.meta["object"] for name, yes in zip(strongest, yeses, strict=True)
        ),
        "strongest cell on nothing annotated": strongest.count("nothing annotated"),
        "on the object": round(float(known.mean()), 3) if len(known) else None,
        "standard error": round(float(known.std() / np.sqrt(len(known))), 3) if len(known) else None,
        "boxes": len(known),
    }


def main(weights: str, pope: str, images: str, instances: str) -> None:
    torch.set_num_threads(1)
    model = load_model("photovlm.coco", weights=weights)
    data = RePOPE(source=pope, images=images, missing="skip")
    pictures = read_instances(instances)
    asked = {"held out": {}, "seen in training": {}}
    wrong: list[Yes] = []
    right: list[Yes] = []
    for sample in data.load(0, len(data)):
        number = Path(str(sample.meta["photo"])).stem[-12:]
        if number not in pictures:
            continue
        try:
            [answer] = model.answer([sample])
        except ValueError:  # a word that the model does not know
            continue
        held = held_out(number)
        key = f"{sample.answer}, said {answer}"
        tally = asked["held out" if held else "seen in training"]
        tally[key] = tally.get(key, 0) + 1
        if held and answer == "yes":
            (right if sample.answer == "yes" else wrong).append(explained(model, sample, pictures[number]))
            print(sample.text, sample.answer, wrong[-1].strongest() if sample.answer == "no" else "", flush=True)
    pair = example(wrong, right)
    draw(pair)
    shown = [
        {"question": yes.sample.text, "right": yes.right, "yes": round(yes.full, 3), "strongest cell": yes.strongest(),
         "without the picture": round(yes.no_picture, 3), "without the name": round(yes.no_name, 3),
         "strongest word": yes.word, "there": sorted({name for name, _ in yes.boxes()})}
        for yes in pair
    ]  # fmt: skip
    record = {"asked": asked, "wrong yes": summary(wrong), "right yes": summary(right), "shown": shown}
    (HERE / "hallucination.json").write_text(json.dumps(record, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
