"""Extremal perturbations: of all masks of a given area, the one that keeps the answer best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt

from karat.explainers.asking import attribution
from karat.kernel.attribution import Attribution
from karat.kernel.card import Card
from karat.kernel.errors import BadInput
from karat.kernel.typing import Values
from karat.probe.absence import Absence
from karat.probe.coalitions import ModelGame
from karat.probe.evaluator import Question
from karat.probe.session import Session

Array = npt.NDArray[np.float64]
POPULATION, ELITE, MEMORY = 32, 8, 0.6  # of the search by sampling


@dataclass(frozen=True)
class Extremal:
    """The mean, over `areas`, of the mask that keeps that share of the `cells` × `cells` and most of the answer.

    `search`: "gradient" follows the gradient of the answer's log-probability for `steps` steps, the area held by a
    penalty on the sorted mask; "sampling" (the cross-entropy method, `budget` passes in all) needs nothing but scores,
    and holds the area exactly; "auto" is the first where the model has gradients.
    """

    areas: tuple[float, ...] = (0.025, 0.05, 0.1, 0.2)
    cells: int = 14
    steps: int = 800
    budget: int = 2048
    search: Literal["auto", "gradient", "sampling"] = "auto"
    rate: float = 0.01
    penalty: float = 4900.0  # at the last step
    absence: str = "blur"
    card: ClassVar[Card] = Card(
        "perturbation/extremal",
        "the smallest part of the image that keeps the answer, over several sizes",
        "explainer",
        gives=frozenset({"visual"}),
        citation="Fong et al. 2019, Understanding deep networks via extremal perturbations; pixelrules2024",
        departures="a bilinear mask instead of a smooth maximum; masks of all areas are averaged; the penalty starts "
        "low; "
        "search by sampling where the model has no gradients",
        passes="areas × steps, or budget",
    )

    @property
    def passes(self) -> int:
        by_gradient = len(self.areas) * self.steps
        return {"sampling": self.budget, "gradient": by_gradient, "auto": max(self.budget, by_gradient)}[self.search]

    def __call__(self, session: Session) -> list[Attribution]:
        if not self.areas or not all(0 < area < 1 for area in self.areas):
            raise BadInput(f"areas are shares of the image between 0 and 1; got {self.areas}.")
        grid = (self.cells, self.cells)
        asked = [session.game(i, visual=grid, absence=Absence(self.absence)) for i in range(len(session.samples))]
        gradient = session.inside is not None if self.search == "auto" else self.search == "gradient"
        masks = self._by_gradient(session, asked) if gradient else self._by_sampling(session, asked)
        passes = len(self.areas) * self.steps if gradient else self._rounds * POPULATION * len(self.areas)
        return [
            attribution(session, i, game, np.append(mask, [np.nan] * game.n_text), passes=passes, signed=False)
            for i, (game, mask) in enumerate(zip(asked, masks, strict=True))
        ]

    @property
    def _rounds(self) -> int:
        rounds = self.budget // (POPULATION * len(self.areas))
        if rounds < 2:
            raise BadInput(f"{len(self.areas)} areas need a budget of {2 * POPULATION * len(self.areas)} or more.")
        return rounds

    def _by_sampling(self, session: Session, asked: Sequence[ModelGame]) -> list[Array]:
        questions = []
        for i, game in enumerate(asked):
            for area in self.areas:
                kept = max(1, round(area * game.n_visual))
                rng = session.rng(i, f"{self.card.name}/{area}")
                questions.append((game, searched(game.n_visual, game.n_text, kept, self._rounds, rng)))
        found = np.stack(session.ask(questions)).reshape(len(asked), len(self.areas), -1)
        return list(found.mean(axis=1))

    def _by_gradient(self, session: Session, asked: Sequence[ModelGame]) -> list[Array]:
        rows = [(i, area) for i in range(len(asked)) for area in self.areas]
        masks = []
        for start in range(0, len(rows), session.batch_size):
            masks.append(self._followed(session, asked, rows[start : start + session.batch_size]))
        return list(np.concatenate(masks).reshape(len(asked), len(self.areas), -1).mean(axis=1))

    def _followed(self, session: Session, asked: Sequence[ModelGame], rows: Sequence[tuple[int, float]]) -> Array:
        """Masks (rows, cells²) by gradient ascent with momentum.

        The penalty grows from 1 to what it reaches as published (300 growing by 0.35 % for 800 steps). It must not be
        strong at the start: all cells are equal then, and which of them it would lift is chance.
        """
        import torch
        from torch.nn.functional import interpolate

        from karat.probe.hooks import evaluating, frozen
        from karat.probe.inputs import join

        model = session.torch_model
        mixed = [session.masked_inputs(asked[i]) for i, _ in rows]
        if any(part.base.frames is None for part in mixed):
            raise BadInput(f"{model.name!r} has a transform of its own; use search='sampling'.")
        inputs = join([part.base for part in mixed], model.neutral_token or 0)
        absent = torch.cat([part.absent_pixels for part in mixed])
        targets = [asked[i].setting.target for i, _ in rows]
        n = self.cells**2
        kept = torch.tensor([max(1, round(area * n)) for _, area in rows], device=absent.device)
        wanted = (torch.arange(n, device=absent.device)[None] >= n - kept[:, None]).to(
            absent.dtype
        )  # sorted, ascending
        mask = torch.full((len(rows), 1, self.cells, self.cells), 0.5, device=absent.device, requires_grad=True)
        speed = torch.zeros_like(mask)
        with evaluating(model.module), frozen(model.module), torch.enable_grad():
            for step in range(self.steps):
                weight = self.penalty ** (step / self.steps)
                shade = interpolate(mask, size=absent.shape[-2:], mode="bilinear", align_corners=False)
                shown = replace(inputs, pixels=torch.lerp(absent, inputs.pixels, shade), reuse={})
                answer = model.log_probability(shown, targets)
                off = (mask.flatten(1).sort(dim=1).values - wanted).square().mean(dim=1)
                [slope] = torch.autograd.grad((answer - weight * off).sum(), mask)
                with torch.no_grad():
                    largest = slope.abs().amax(dim=(1, 2, 3), keepdim=True).clamp_min(1e-30)
                    speed = 0.9 * speed + 0.1 * slope / largest  # so that `rate` is in units of the mask
                    mask += self.rate * speed
                    mask.clamp_(0, 1)
        session.cost.traces += self.steps
        session.cost.backwards += self.steps
        return np.asarray(mask.detach().flatten(1).double().cpu().numpy())


def searched(n: int, n_text: int, kept: int, rounds: int, rng: np.random.Generator) -> Question[Values]:
    """How often (n,) each cell is in the best masks of exactly `kept` cells, by the cross-entropy method."""
    odds = np.full(n, kept / n)
    for _ in range(rounds):
        noise = rng.gumbel(size=(POPULATION, n))
        rank = np.argsort(np.argsort(-(np.log(odds + 1e-3) + noise), axis=1), axis=1)
        keep = rank < kept  # a draw of `kept` cells without replacement, in proportion to their odds
        values = yield np.concatenate([keep, np.ones((POPULATION, n_text), dtype=np.bool_)], axis=1)
        best = keep[np.argsort(-values, kind="stable")[:ELITE]]
        odds = MEMORY * odds + (1 - MEMORY) * best.mean(axis=0)
    return odds
