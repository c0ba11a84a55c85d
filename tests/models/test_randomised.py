from __future__ import annotations

import numpy as np
import pytest

from karat.datasets import grid
from karat.kernel.errors import BadInput
from karat.models import load_model, recipe

torch = pytest.importorskip("torch")


@pytest.fixture(scope="module")
def samples() -> list[object]:
    return list(grid.generate("D1_M_F0_d0.3", 24, seed=3))


def test_shuffled_weights_keep_their_values_and_lose_the_answer(samples: list[object]) -> None:
    whole, broken = load_model("gridnet.pure"), load_model("randomised", of="gridnet.pure")
    for before, after in zip(whole.module.parameters(), broken.module.parameters(), strict=True):
        np.testing.assert_allclose(np.sort(before.detach().ravel()), np.sort(after.detach().ravel()))
    right = np.mean([a == s.answer for a, s in zip(whole.answer(samples), samples, strict=True)])
    lost = np.mean([a == s.answer for a, s in zip(broken.answer(samples), samples, strict=True)])
    assert right > 0.9
    assert lost < 0.6


def test_the_same_seed_shuffles_the_same_way(samples: list[object]) -> None:
    first, second = (load_model("randomised", of="gridnet.pure", share=0.5) for _ in range(2))
    other = load_model("randomised", of="gridnet.pure", share=0.5, seed=1)
    answers = [m.answer(samples) for m in (first, second)]
    probabilities = [m.score(samples, answers[0]) for m in (first, second, other)]
    assert answers[0] == answers[1]
    np.testing.assert_array_equal(probabilities[0], probabilities[1])
    assert not np.allclose(probabilities[0], probabilities[2])


def test_independent_changes_one_tensor_and_cascading_all_from_the_answer_back() -> None:
    whole = [p.detach() for p in load_model("gridnet.pure").module.parameters() if p.ndim >= 2]

    def changed(how: str, share: float) -> list[bool]:
        module = load_model("randomised", of="gridnet.pure", how=how, share=share).module
        return [
            not torch.equal(a, b) for a, b in zip(whole, [p for p in module.parameters() if p.ndim >= 2], strict=True)
        ]

    cascade = changed("cascading", 0.25)
    assert sum(changed("independent", 0.5)) <= 1
    assert 0 < sum(cascade) < len(cascade)
    assert not any(cascade[: len(cascade) // 2])


def test_it_keeps_what_the_model_can_do_and_says_what_it_is() -> None:
    made = recipe("randomised", of="gridprog.spur", share=0.5)
    assert made.label == "gridprog.spur randomised (cascading 0.5)"
    assert made.capabilities == recipe("gridprog.spur").capabilities
    with pytest.raises(BadInput, match=r"share: Input should be greater than 0; got 0\.0"):
        recipe("randomised", share=0.0)


def test_wrapped_modules_are_shuffled_too() -> None:
    model = load_model("randomised", of="classifier")
    assert model.name == "resnet18 randomised (cascading 1)"
    before, after = (m.module.fc.weight.detach() for m in (load_model("classifier"), model))
    assert not torch.equal(before, after)
    torch.testing.assert_close(before.flatten().sort().values, after.flatten().sort().values)
