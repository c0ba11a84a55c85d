"""Extremal perturbations: of all masks of a given area, the one that keeps the answer best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from annotated_types import Ge, Gt, Lt, MinLen

from karat.explainers.coalitional import Budget, attribution
from karat.kernel.attribution import Attribution
from karat.kernel.card import Card
from karat.kernel.constraints import checked
from karat.kernel.errors import BadInput
from karat.kernel.typing import Values
from karat.probe.absence import Absence, VisualAbsence
from karat.probe.coalitions import ModelGame
from karat.probe.evaluator import Question
from karat.probe.session import Session

Array = npt.NDArray[np.float64]
POPULATION, ELITE, MEMORY = 32, 8, 0.6  # of the search by sampling


@dataclass(frozen=True)
@checked
class Extremal:
    """The mean, over `areas`, of the mask that keeps that share of the `cells` × `cells` and most of the answer.

    `search`: "gradient" follows the gradient of the answer's log-probability for `steps` steps, the area held by a
    penalty on the sorted mask; "sampling" (the cross-entropy method, `budget` passes in all) needs nothing but scores,
    and holds the area exactly; "auto" is the first where the model has gradients. `rate`: how far the mask moves in a
    step; `penalty`: weight of the area at the last step; `absence`: what lies behind the mask.
    """

    areas: Annotated[tuple[Annotated[float, Gt(0), Lt(1)], ...], MinLen(1)] = (0.025, 0.05, 0.1, 0.2)
    cells: Annotated[int, Ge(1)] = 14
    steps: Annotated[int, Ge(1)] = 800
    budget: Budget = 2048
    search: Literal["auto", "gradient", "sampling"] = "auto"
    rate: Annotated[float, Gt(0)] = 0.01
    penalty: Annotated[float, Gt(0)] = 4900.0
    absence: VisualAbsence = "blur"
    card: ClassVar[Card] = Card(
        "perturbation/extremal",
        "the smallest part of the image that keeps the answer, over several sizes",
        "explainer",
        gives=frozenset({"visual"}),
        citation="Fong et al. 2019, Understanding deep networks via extremal perturbations; pixelrules2024",
        departures="a bilinear mask instead of a smooth maximum; masks of all areas are averaged; the penalty starts "
        "low; search by sampling where the model has no gradients",
        passes="areas × steps, or budget",
    )

    def __post_init__(self) -> None:
        if self.search != "gradient" and self._rounds < 2:
            least = 2 * POPULATION * len(self.areas)
            raise BadInput(
                f"{self.card.name}: {len(self.areas)} areas need a budget of {least} or more; got {self.budget}. "
                "search='gradient' needs none, on models that have gradients."
            )

    @property
    def passes(self) -> int:
        by_gradient = len(self.areas) * self.steps
        return {"sampling": self.budget, "gradient": by_gradient, "auto": max(self.budget, by_gradient)}[self.search]

    def __call__(self, session: Session) -> list[Attribution]:
        grid = (self.cells, self.cells)
        games = [session.game(i, visual=grid, absence=Absence(self.absence)) for i in range(len(session.samples))]
        gradient = session.inside is not None if self.search == "auto" else self.search == "gradient"
        masks = self._by_gradient(session, games) if gradient else self._by_sampling(session, games)
        passes = len(self.areas) * self.steps if gradient else self._rounds * POPULATION * len(self.areas)
        return [
            attribution(session, i, game, np.append(mask, [np.nan] * game.n_text), passes=passes, signed=False)
            for i, (game, mask) in enumerate(zip(games, masks, strict=True))
        ]

    @property
    def _rounds(self) -> int:
        return self.budget // (POPULATION * len(self.areas))

    def _by_sampling(self, session: Session, games: Sequence[ModelGame]) -> list[Array]:
        questions = []
        for i, game in enumerate(games):
            for area in self.areas:
                kept = max(1, round(area * game.n_visual))
                rng = session.rng(i, f"{self.card.name}/{area}")
                questions.append((game, cross_entropy_search(game.n_visual, game.n_text, kept, self._rounds, rng)))
        odds = np.stack(session.ask(questions)).reshape(len(games), len(self.areas), -1)
        return list(odds.mean(axis=1))

    def _by_gradient(self, session: Session, games: Sequence[ModelGame]) -> list[Array]:
        rows = [(i, area) for i in range(len(games)) for area in self.areas]
        masks = []
        for start in range(0, len(rows), session.batch_size):
            masks.append(self._ascended(session, games, rows[start : start + session.batch_size]))
        return list(np.concatenate(masks).reshape(len(games), len(self.areas), -1).mean(axis=1))

    def _ascended(self, session: Session, games: Sequence[ModelGame], rows: Sequence[tuple[int, float]]) -> Array:
        """Masks (rows, cells²) by gradient ascent with momentum.

        The penalty grows from 1 to what it reaches as published (300 growing by 0.35 % for 800 steps). It must not be
        strong at the start: all cells are equal then, and which of them it would lift is chance.
        """
        import torch
        from torch.nn.functional import interpolate

        from karat.probe.hooks import evaluating, frozen
        from karat.probe.inputs import join

        model = session.torch_model
        mixed = [session.masked_inputs(games[i]) for i, _ in rows]
        if any(part.base.frames is None for part in mixed):
            raise BadInput(f"{model.name!r} has a transform of its own; use search='sampling'.")
        inputs = join([part.base for part in mixed], model.neutral_token or 0)
        absent = torch.cat([part.absent_pixels for part in mixed])
        targets = [games[i].setting.target for i, _ in rows]
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
                masked = replace(inputs, pixels=torch.lerp(absent, inputs.pixels, shade), reuse={})
                answer = model.log_probability(masked, targets)
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


def cross_entropy_search(n: int, n_text: int, kept: int, rounds: int, rng: np.random.Generator) -> Question[Values]:
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
