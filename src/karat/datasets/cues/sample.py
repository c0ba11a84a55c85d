"""`CueSample`: a composed photograph that can be asked for again with any cue changed, left out or hidden."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from karat.datasets.cues.compose import ask, compose, hide
from karat.datasets.cues.layout import Layout
from karat.datasets.cues.photographs import Photograph
from karat.datasets.cues.rules import RULES, Rule, find_rule
from karat.datasets.cues.world import ANSWERS, CARRIER, CUES, DRAWN, Votes, World, answer_of
from karat.kernel.errors import BadInput, UnknownName
from karat.kernel.sample import Phrase, Region, Sample, Uses
from karat.kernel.typing import Mask

CAN_BE_ABSENT = (*DRAWN, "word")


@dataclass(frozen=True, eq=False)
class Scene:
    """What stays when cues change: a photograph of either class, and where everything stands."""

    yes: Photograph
    no: Photograph
    layout: Layout
    world: World


@dataclass(frozen=True, eq=False)
class CueSample(Sample):
    """`votes` says what each cue votes for, None where it is not there. The answer is the content's: the true one.

    Regions have the roles "content", "tag", "frame" and "sticker" and share no pixel; phrases have the roles "word" and
    "noun". `truth(rule)` is what a model of that rule must use here; a rule that says nothing here has none.
    """

    votes: Votes = field(default_factory=dict)
    scene: Scene | None = None
    hidden: Mapping[str, str] = field(default_factory=dict)  # cue → the absence state it is hidden in

    def with_cues(self, **changes: bool | str | None) -> CueSample:
        """The same photograph under other cues: a vote (True, False), a value ("teal"), or None to leave it out.

        Other `content` is another photograph, the sample's own one of the other class. All else stays as it is.

            sample.with_cues(tag=False, word="kindly"); sample.with_cues(frame=None)
        """
        scene = self._scene
        votes = dict(self.votes)
        for cue, change in changes.items():
            if cue not in CUES:
                raise UnknownName("cue", cue, CUES)
            if change is None and cue not in CAN_BE_ABSENT:
                raise BadInput(
                    f"{cue} cannot be left out, only {', '.join(CAN_BE_ABSENT)}; hide it: `without({cue!r})`."
                )
            votes[cue] = scene.world.vote(cue, change) if isinstance(change, str) else change
        return assemble(_renamed(self.id, changes, scene.world), scene, votes)

    def turned(self, *cues: str) -> CueSample:
        """The sample with these cues voting the other way; those that are not there stay away."""
        return self.with_cues(**{cue: not self.votes[cue] for cue in _known(cues) if self.votes[cue] is not None})

    def without(self, *cues: str, state: str = "white") -> CueSample:
        """The sample with the carriers of these cues hidden in an absence state; a hidden word is taken out.

        `content` and `side` are carried by the object, so hiding one hides both.
        """
        text, phrases = self.text, self.phrases
        if "word" in _known(cues):
            bare = self.with_cues(word=None)
            text, phrases = bare.text, bare.phrases
        mask = self.mask(*{CARRIER[cue] for cue in cues})
        carried = {cue for cue in CUES if CARRIER[cue] in {CARRIER[each] for each in cues}}
        return replace(
            self,
            id=f"{self.id} without {'+'.join(sorted(cues))} ({state})",
            image=hide(self.image, mask, state),
            text=text,
            phrases=phrases,
            votes={cue: None if cue in carried else vote for cue, vote in self.votes.items()},
            hidden={**self.hidden, **dict.fromkeys(carried, state)},
            mechanisms={},
        )

    def expected(self, rule: str | Rule) -> str | None:
        """What a model of the rule answers here; None where the rule says nothing."""
        vote = find_rule(rule).answer(self.votes)
        return None if vote is None else answer_of(vote)

    @property
    def _scene(self) -> Scene:
        if self.scene is None or self.hidden:
            raise BadInput(f"sample {self.id} cannot be composed again; start from the sample as it was generated.")
        return self.scene


def assemble(name: str, scene: Scene, votes: Votes) -> CueSample:
    """The sample of a scene under given votes."""
    world, layout = scene.world, scene.layout
    photograph, window = (scene.yes, layout.yes) if votes["content"] else (scene.no, layout.no)
    picture = compose(photograph, window, layout, votes, world)
    text, phrases = ask(layout.template, world.value("word", votes["word"]), world.classes[0])
    regions = tuple(
        Region(cue, cue, pixels=pixels, label=world.value(cue, votes[cue])) for cue, pixels in picture.pixels.items()
    )
    return CueSample(
        id=name,
        image=picture.image,
        text=text,
        answer=answer_of(bool(votes["content"])),
        regions=regions,
        phrases=phrases,
        mechanisms=_mechanisms(votes),
        meta={
            **{cue: world.value(cue, votes[cue]) for cue in CUES},
            "photograph": photograph.id,
            "covered": round(picture.hidden, 4),
        },
        choices=ANSWERS,
        votes=votes,
        scene=scene,
    )


def _mechanisms(votes: Votes) -> dict[str, Uses]:
    return {
        name: Uses(
            frozenset(CARRIER[cue] for cue in used if cue != "word"), frozenset(cue for cue in used if cue == "word")
        )
        for name, rule in RULES.items()
        if (used := rule.used(votes))
    }


def visible(sample: CueSample, keep: Mask, words: Iterable[bool] | None = None) -> dict[str, float]:
    """The share of each cue that is left where only the pixels `keep` (H, W) and the `words` kept are shown."""
    shares = {}
    for cue in CUES:
        if cue == "word":
            mine = sample.word_mask("word")
            kept = mine if words is None else [m and w for m, w in zip(mine, words, strict=True)]
            shares[cue] = float(any(kept))
        else:
            mask = sample.mask(CARRIER[cue])
            total = int(np.count_nonzero(mask))
            shares[cue] = float(np.count_nonzero(mask & keep) / total) if total else 0.0
    return shares


def _known(cues: tuple[str, ...]) -> tuple[str, ...]:
    for cue in cues:
        if cue not in CUES:
            raise UnknownName("cue", cue, CUES)
    return cues


def _renamed(name: str, changes: Mapping[str, bool | str | None], world: World) -> str:
    changed = [
        f"{cue}={change if isinstance(change, str) else world.value(cue, change) or 'none'}"
        for cue, change in sorted(changes.items())
    ]
    return f"{name} {' '.join(changed)}" if changed else name


__all__ = ["CAN_BE_ABSENT", "CueSample", "Phrase", "Scene", "assemble", "visible"]
