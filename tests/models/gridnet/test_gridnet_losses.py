"""Losses of gridnet against closed forms and slow twins."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from karat.models.gridnet import losses
from karat.models.gridnet.network import Answers, Found

boxes = st.tuples(*[st.floats(0.1, 0.9)] * 2, *[st.floats(0.05, 0.5)] * 2)


def slow_giou(a: tuple[float, ...], b: tuple[float, ...]) -> float:
    """Word for word: intersection over union, minus the share of the hull that is in neither."""
    ax0, ay0, ax1, ay1 = a[0] - a[2] / 2, a[1] - a[3] / 2, a[0] + a[2] / 2, a[1] + a[3] / 2
    bx0, by0, bx1, by1 = b[0] - b[2] / 2, b[1] - b[3] / 2, b[0] + b[2] / 2, b[1] + b[3] / 2
    inter = max(0.0, min(ax1, bx1) - max(ax0, bx0)) * max(0.0, min(ay1, by1) - max(ay0, by0))
    union = a[2] * a[3] + b[2] * b[3] - inter
    hull = (max(ax1, bx1) - min(ax0, bx0)) * (max(ay1, by1) - min(ay0, by0))
    return inter / union - (hull - union) / hull


@given(boxes, boxes)
@settings(max_examples=60, deadline=None)
def test_generalized_iou_is_its_definition(a: tuple[float, ...], b: tuple[float, ...]) -> None:
    one, two = torch.tensor(a, dtype=torch.float64), torch.tensor(b, dtype=torch.float64)
    assert float(losses.generalized_iou(one, two)) == pytest.approx(slow_giou(a, b), abs=1e-9)
    assert float(losses.generalized_iou(one, one)) == pytest.approx(1.0)
    assert -1 <= float(losses.generalized_iou(one, two)) <= 1 + 1e-12


def test_far_boxes_still_have_a_gradient() -> None:
    a = torch.tensor([0.1, 0.1, 0.1, 0.1], requires_grad=True)
    losses.generalized_iou(a, torch.tensor([0.9, 0.9, 0.1, 0.1])).backward()
    assert a.grad is not None
    assert a.grad[0] > 0  # to the right is nearer


def random_found(n: int, queries: int, words: int, seed: int) -> Found:
    torch.manual_seed(seed)
    unit = torch.nn.functional.normalize
    return Found(
        torch.rand(n, queries, 4) * 0.5 + 0.2,
        torch.randn(n, queries, words + 1),
        unit(torch.randn(n, queries, 8), dim=-1),
        unit(torch.randn(n, words, 8), dim=-1),
    )


@pytest.mark.parametrize("seed", range(5))
def test_matching_is_the_cheapest_of_all(seed: int) -> None:
    found = random_found(1, 5, 4, seed)
    phrases = torch.zeros(1, 3, 4)
    phrases[0, 0, :2], phrases[0, 1, 2] = 0.5, 1.0
    objects = losses.Objects(torch.rand(1, 3, 4) * 0.5 + 0.2, torch.tensor([[True, True, False]]), phrases)
    query = losses.match(found, objects)[0].tolist()

    def cost(q: int, g: int) -> float:
        given, wanted = found.boxes[0, q], objects.boxes[0, g]
        likely = (found.phrases[0, q].softmax(-1)[:4] * phrases[0, g]).sum()
        return float(5 * (given - wanted).abs().sum() - 2 * losses.generalized_iou(given, wanted) - likely)

    best = min(itertools.permutations(range(5), 2), key=lambda pair: cost(pair[0], 0) + cost(pair[1], 1))
    assert query == [*best, -1]


def test_detection_is_near_zero_for_perfect_queries() -> None:
    """Two queries that say exactly what is there, the third that it has nothing."""
    wanted = torch.tensor([[[0.25, 0.25, 0.2, 0.2], [0.75, 0.5, 0.2, 0.2]]])
    phrases = torch.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])
    said = torch.full((1, 3, 4), -20.0)
    said[0, 0, 0] = said[0, 1, 1] = said[0, 2, 3] = 20.0
    basis = torch.eye(3)[None]
    found = Found(torch.cat([wanted, wanted[:, :1]], dim=1), said, basis, basis)
    parts = losses.detection(found, losses.Objects(wanted, torch.ones(1, 2).bool(), phrases), torch.ones(1, 3).bool())
    assert {name: round(float(value), 4) for name, value in parts.items()} == {
        "l1": 0.0, "giou": 0.0, "phrase": 0.0, "align": 0.0,
    }  # fmt: skip
    swapped = losses.Objects(wanted, torch.ones(1, 2).bool(), phrases.flip(1))
    assert losses.detection(found, swapped, torch.ones(1, 3).bool())["phrase"] > 5


def test_a_batch_without_objects_has_a_finite_loss() -> None:
    objects = losses.Objects(torch.zeros(2, 1, 4), torch.zeros(2, 1).bool(), torch.zeros(2, 1, 4))
    parts = losses.detection(random_found(2, 3, 4, 0), objects, torch.ones(2, 4).bool())
    assert float(parts["l1"]) == float(parts["giou"]) == float(parts["align"]) == 0
    assert float(parts["phrase"]) > 0  # "no object" is still learned


def test_answers_weigh_inversely_to_their_frequency() -> None:
    """gridvqax2026 section 4.1 as a loop; frequencies within the question type."""
    torch.manual_seed(0)
    logits = Answers(torch.randn(6, 2), (torch.randn(6, 2), torch.randn(6, 5)))
    kind, value = torch.tensor([0, 0, 0, 1, 1, 1]), torch.tensor([0, 0, 1, 4, 2, 4])
    trust = torch.tensor([1.0, 1.0, 1.0, 1.0, 0.3, 1.0])
    got = losses.question_answering(logits, kind, value, trust)
    total = 0.0
    for i in range(6):
        mates = [j for j in range(6) if kind[j] == kind[i]]
        inverse = {j: 1 / sum(int(value[k] == value[j]) for k in mates) for j in mates}
        weight = inverse[i] * len(mates) / sum(inverse.values())
        total -= float(trust[i] * logits.type[i].log_softmax(0)[kind[i]])
        total -= float(trust[i] * weight * logits.values[kind[i]][i].log_softmax(0)[value[i]])
    assert float(got) == pytest.approx(total / float(trust.sum()), rel=1e-5)


def test_a_type_without_samples_costs_nothing_but_has_a_gradient() -> None:
    empty = torch.randn(2, 5, requires_grad=True)
    logits = Answers(torch.zeros(2, 2), (torch.zeros(2, 2), empty))
    loss = losses.question_answering(logits, torch.tensor([0, 0]), torch.tensor([0, 1]), torch.ones(2))
    loss.backward()
    assert torch.isfinite(loss)
    assert empty.grad is not None
    assert not empty.grad.any()


def test_relations_that_are_not_asked_do_not_count() -> None:
    logits = torch.randn(2, 9, 4)
    holds = torch.rand(2, 9, 4) > 0.5
    asked = torch.tensor([[True, False, False, False], [False] * 4])
    alone = torch.nn.functional.binary_cross_entropy_with_logits(logits[0, :, 0], holds[0, :, 0].float())
    assert float(losses.regions(logits, holds, asked)) == pytest.approx(float(alone), rel=1e-5)
