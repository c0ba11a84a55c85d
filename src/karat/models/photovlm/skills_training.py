"""`photovlm.coco`: the same LLaVA, taught to answer questions about photographs. It follows no rule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from karat.datasets.spatial.coco import Picture, read_instances
from karat.datasets.spatial.pair import find_picture
from karat.kernel.errors import BadInput
from karat.kernel.identity import digest, generator
from karat.kernel.proportion import share
from karat.models.organisms.adapters import trained
from karat.models.organisms.files import Origin, save_organism
from karat.models.organisms.questions import Question as WordedQuestion
from karat.models.organisms.questions import encode_questions
from karat.models.organisms.stream import cache_root
from karat.models.organisms.train import photovlm_tower_name, tower_states
from karat.models.organisms.training import run
from karat.models.photovlm.files import load_photovlm
from karat.models.photovlm.skills import SKILLS, Question, draw, held_out, popularity
from karat.models.training.progress import Callback
from karat.models.vlm_decoder import Decoder

Tell = Callable[[int, int], None]
_SHARES = (0.4, 0.3, 0.3)  # of the skills
_REST = 0.1  # weight of an answer's end, which is soon learned
_CHUNK = 64  # pictures whose features are in one file
_GUESSES = 6  # questions of each skill about each picture that the guess by words alone is made from


@dataclass(frozen=True)
class SkillsRecipe:
    """`images` is COCO's folder of pictures, `instances` its boxes. One picture in six is kept for testing.

    A step takes `batch` pictures and asks `each` questions about each of them: what a picture costs is then paid once.
    """

    images: str
    instances: str
    seed: int = 0
    steps: int = 1200
    batch: int = 16
    each: int = 8
    learning_rate: float = 1e-3
    weight_decay: float = 0.05
    warmup: int = 100
    decay_steps: int = 800
    clip: float = 1.0
    checkpoint_minutes: float = 3.0
    evaluate_every: int = 50

    @property
    def label(self) -> str:
        return "photovlm.coco" + (f" (seed {self.seed})" if self.seed else "")

    @property
    def identity(self) -> str:
        named = asdict(self)
        for name in ("images", "instances", "checkpoint_minutes", "evaluate_every"):
            del named[name]
        return digest([named, sorted(self.pictures)])

    def schedule(self, step: int) -> str:
        return f"{self.steps}"

    @cached_property
    def pictures(self) -> dict[str, Picture]:
        known = read_instances(self.instances)
        there = {name: one for name, one in known.items() if find_picture(self.images, one.file) and one.things}
        if len(there) < 50:
            raise BadInput(f"{self.images} holds {len(there)} pictures of {self.instances}; at least 50 are needed.")
        return there


class SkillsTrainee:
    """Questions drawn anew at every step, over kept features of pictures and of their mirror images."""

    def __init__(self, recipe: SkillsRecipe, looking: Tell | None = None) -> None:
        self.recipe, self.model = recipe, load_photovlm(recipe.seed)
        for name, parameter in self.model.module.named_parameters():
            parameter.requires_grad_(not name.startswith(self.model.family.vision))
        self.decoder = Decoder(self.model.module, self.model.family, self.model.neutral_token)
        self.pictures = recipe.pictures
        self.names = sorted(self.pictures)
        self.place = {name: k for k, name in enumerate(self.names)}
        self.train = [name for name in self.names if not held_out(name)]
        self.test = [name for name in self.names if held_out(name)]
        self.features = _kept(self, looking)

    @property
    def module(self) -> nn.Module:
        return self.model.module

    @cached_property
    def popular(self) -> list[float]:
        return popularity({name: self.pictures[name] for name in self.train})

    def draw(self, name: str, skill: str, rng: np.random.Generator, mirrored: bool = False) -> Question | None:
        return draw(name, self.pictures[name], skill, self.popular, rng, mirrored)

    def loss(self, step: int) -> tuple[Tensor, float]:
        rng = generator(self.recipe.seed, f"step {step}", "photovlm/skills")
        questions: list[Question] = []
        for name in rng.choice(self.train, self.recipe.batch, replace=False):
            mirrored, wanted = bool(rng.random() < 0.5), len(questions) + self.recipe.each
            while len(questions) < wanted:
                question = self.draw(str(name), str(rng.choice(SKILLS, p=_SHARES)), rng, mirrored)
                questions += [] if question is None else [question]  # not every picture has two things side by side
        logits, answers = self._logits(questions, self.recipe.each)
        table = logits.log_softmax(-1)
        losses = -table.gather(2, answers[..., None])[..., 0]
        right = (table[:, 0].argmax(-1) == answers[:, 0]).float().mean()
        return (losses[:, 0] + _REST * losses[:, 1]).mean(), float(right)

    def accuracy(self, seed: int = 900_001) -> dict[str, dict[str, float]]:
        """Of each skill, one question about every picture that was kept for testing, with its interval; beside it what
        two guesses that see no picture get: the skill's most frequent answer, and the most frequent answer to these
        very words in training."""
        measured = {}
        for skill in SKILLS:
            rng = generator(seed, skill, "photovlm/skills")
            questions = [one for name in self.test if (one := self.draw(name, skill, rng)) is not None]
            hits: list[bool] = []
            with torch.no_grad():
                for start in range(0, len(questions), _CHUNK):
                    logits, answers = self._logits(questions[start : start + _CHUNK])
                    hits += (logits[:, 0].argmax(-1) == answers[:, 0]).tolist()
            known = [
                one for name in self.train for _ in range(_GUESSES) if (one := self.draw(name, skill, rng)) is not None
            ]
            counted = share(hits)
            measured[skill] = {
                "accuracy": counted.value,
                "low": counted.low,
                "high": counted.high,
                "n": counted.n,
                "most frequent answer": _guessed(questions, known, by_words=False),
                "by words alone": _guessed(questions, known, by_words=True),
            }
        return measured

    def _logits(self, questions: list[Question], each: int = 1) -> tuple[Tensor, Tensor]:
        """(n, 2, vocabulary) logits of the answer and of its end, and their numbers (n, 2). Each `each` questions in a
        row are about one picture, mirrored or not, whose keys and values are then computed once."""
        where = [2 * self.place[q.picture] + q.mirrored for q in questions[::each]]
        states = torch.from_numpy(np.stack([self.features[k // 2 // _CHUNK][k % (2 * _CHUNK)] for k in where]))
        module: Any = self.module
        features = module.model.multi_modal_projector(states.float())
        prompt, neutral = self.model._prompt(features.shape[1]), self.model.neutral_token
        whole = [WordedQuestion(question.text, frozenset(), "pad", False) for question in questions]
        firsts = encode_questions(prompt, whole[::each], neutral, neutral, features)
        kept = self.decoder.beginning(replace(firsts, reuse={"features": features}))
        kept = {name: tensor.repeat_interleave(each, 0) for name, tensor in kept.items()}
        inputs = encode_questions(prompt, whole, neutral, neutral, features.repeat_interleave(each, 0))
        end = self.model._end_tokens[0]
        answers = torch.tensor([[self.model.target_tokens(q.answer).numbers[0], end] for q in questions])
        return self.decoder.logits(self.decoder.states(replace(inputs, reuse=kept), answers)), answers


def _guessed(questions: list[Question], known: list[Question], by_words: bool) -> float:
    """The share of questions that the most frequent answer to `known` ones gets right: to those of the same words,
    where there are any and it is asked for."""
    of_all = Counter(question.answer for question in known)
    of_words: dict[str, Counter[str]] = {}
    for question in known if by_words else ():
        of_words.setdefault(question.text, Counter())[question.answer] += 1
    hits = [one.answer == of_words.get(one.text, of_all).most_common(1)[0][0] for one in questions]
    return float(np.mean(hits))


def train_skills(
    recipe: SkillsRecipe,
    out: str | Path = "checkpoints/photovlm.coco",
    resume: bool = True,
    progress: Callback | None = None,
    looking: Tell | None = None,
) -> Path:
    """Train, measure on pictures that were kept for testing, and return the organism's file."""
    trainee = SkillsTrainee(recipe, looking)
    seconds = run(trainee, Path(out), resume, progress)
    tensors = {name: parameter.detach().half() for name, parameter in trained(trainee.module).items()}
    about = {**asdict(recipe), "images": Path(recipe.images).name, "instances": Path(recipe.instances).name}
    about["accuracy"] = trainee.accuracy()
    facts = Origin("photovlm", "coco", "scratch", seed=recipe.seed, minutes=round(seconds / 60, 1), recipe=about)
    return save_organism(Path(out) / "organism.safetensors", tensors, facts)


def _kept(trainee: SkillsTrainee, looking: Tell | None) -> list[npt.NDArray[np.float16]]:
    """Features of every picture and of its mirror image, in turn, _CHUNK pictures a file, mapped rather than read;
    files that were made before are kept."""
    from karat.datasets.segmentation.files import read_image

    recipe, names = trainee.recipe, trainee.names
    folder = cache_root() / f"{photovlm_tower_name()}-coco-{digest(names)}"
    folder.mkdir(parents=True, exist_ok=True)
    look = tower_states(trainee.model)
    for start in range(0, len(names), _CHUNK):
        part = folder / f"{start:06d}.npy"
        if not part.is_file():
            images = []
            for name in names[start : start + _CHUNK]:
                path = find_picture(recipe.images, trainee.pictures[name].file)
                assert path is not None
                image = read_image(path)
                images += [image, np.ascontiguousarray(image[:, ::-1])]
            temporary = folder / f".{part.name}.npy"
            np.save(temporary, look(images))
            temporary.replace(part)
        if looking is not None:
            looking(min(start + _CHUNK, len(names)), len(names))
    files = [folder / f"{start:06d}.npy" for start in range(0, len(names), _CHUNK)]
    return [np.load(file, mmap_mode="r", allow_pickle=False) for file in files]
