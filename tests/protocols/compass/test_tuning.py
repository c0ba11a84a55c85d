"""Losses with known values and gradients, and a training intervention on an untrained LLaVA of a million weights."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_vlms
import torch
from PIL import Image

from karat.datasets.spatial import GridRelations
from karat.kernel.errors import BadInput
from karat.kernel.sample import Region, Sample
from karat.models.gridvlm import build
from karat.models.gridvlm.recipe import GridVLM
from karat.models.gridvlm.trainee import save
from karat.models.torch_model import Inputs
from karat.protocols.compass import tuning
from karat.protocols.compass.lora import Lora
from karat.protocols.compass.losses import compass_loss, contrastive_loss, target_loss
from karat.protocols.compass.tuning import (
    Objective,
    Teller,
    adapted,
    inside,
    placed,
    reading_state,
    relevance,
    train,
    tuned,
)

A, B = np.array([[2.5, 2.5]]), np.array([[4.5, 2.5]])


def spot(row: int, column: int) -> torch.Tensor:
    maps = torch.zeros(1, 5, 5, dtype=torch.float64)
    maps[0, row, column] = 1.0
    return maps.requires_grad_()


def test_compass_loss_is_one_minus_the_cosine() -> None:
    for (row, column), degrees in {(2, 4): 0, (0, 4): 45, (0, 2): 90, (2, 0): 180}.items():
        assert float(compass_loss(spot(row, column), A, B, entropy=0.0)) == pytest.approx(
            1 - math.cos(math.radians(degrees))
        )


def test_compass_loss_has_the_gradient_of_its_formula() -> None:
    torch.manual_seed(0)
    maps = (torch.rand(3, 5, 5, dtype=torch.float64) + 0.1).requires_grad_()
    points = np.array([[1.2, 2.2], [3.1, 0.7], [2.4, 4.2]])
    assert torch.autograd.gradcheck(lambda m: compass_loss(m, points, points + 1.3), (maps,))


def test_evidence_moves_towards_the_target() -> None:
    logits = torch.zeros(1, 5, 5, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.Adam([logits], lr=0.1)
    first = None
    for _ in range(60):
        loss = compass_loss(logits.exp(), A, B)
        first = first if first is not None else float(loss.detach())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert first is not None
    assert float(loss.detach()) < 0.2 < first
    assert logits.detach()[0, 2, 3:].mean() > logits.detach()[0, 2, :2].mean()


def test_a_map_without_evidence_costs_nothing_and_breaks_nothing() -> None:
    maps = torch.zeros(1, 5, 5, requires_grad=True)
    loss = compass_loss(maps, A, B)
    loss.backward()
    assert float(loss.detach()) == 0.0
    assert maps.grad is not None
    assert torch.isfinite(maps.grad).all()


def test_target_loss_is_the_log_of_the_share() -> None:
    scores = torch.tensor([[2.0, 1.0, 0.5, 0.5]], dtype=torch.float64)  # of mean 1
    inside = torch.tensor([[False, True, True, False]])
    shares = [math.exp(v) for v in scores[0].tolist()]
    wanted = -math.log((shares[1] + shares[2]) / sum(shares))
    assert float(target_loss(scores, inside)) == pytest.approx(wanted)
    assert float(target_loss(1e-3 * scores, inside)) == pytest.approx(wanted)  # whatever the scale
    assert float(target_loss(scores, torch.zeros_like(inside))) == 0.0


def test_contrastive_loss_knows_its_prototypes() -> None:
    eye = torch.eye(4)
    right, wrong = torch.arange(4), torch.tensor([1, 2, 3, 0])
    assert float(contrastive_loss(5 * eye, eye, right)) < 0.01 < 5 < float(contrastive_loss(eye, eye, wrong))


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("vlm") / "gridvlm"
    save(build.make_model(), build.make_processor(), path)
    return path


@pytest.fixture
def what(weights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lora:
    monkeypatch.setenv("KARAT_CACHE", str(tmp_path))
    return Lora("vlm", path=str(weights), samples=12, epochs=2, rate=1e-2, batch=6)


def test_relevance_has_gradients_of_its_own(weights: Path) -> None:
    model = GridVLM(weights=str(weights)).load()
    samples = GridRelations(3).load(0, 3)
    inputs = model.encode(samples)
    answers = [str(sample.answer) for sample in samples]
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        maps, heard = relevance(model, inputs, answers)
    assert heard.tolist() == [True] * 3
    assert maps.shape == (3, 6, 6)
    assert bool((maps >= 0).all())
    weight = model.module.get_submodule("model.language_model.layers.0.self_attn.q_proj").weight
    (gradient,) = torch.autograd.grad(maps.sum(), weight)  # type: ignore[arg-type]
    assert float(gradient.abs().sum()) > 0
    assert reading_state(model, inputs, answers).shape == (3, build.WIDTH)
    a, b, aspect = placed(samples, inputs, maps)
    held = inside(samples, inputs, maps).reshape(3, 6, 6)
    assert aspect.tolist() == [1.0] * 3
    for k in range(3):  # a cell of the grid is a token of the model
        assert bool(held[k, int(b[k, 1]), int(b[k, 0])])
        assert int(held[k].sum()) == 1
        assert not bool(held[k, int(a[k, 1]), int(a[k, 0])])


@pytest.mark.parametrize("strategy", ["answers", "direction", "localisation", "contrastive"])
def test_it_learns_keeps_and_finds_its_adapter_again(what: Lora, strategy: Any) -> None:
    what = replace(what, strategy=strategy)
    before = what.source.load()
    samples = what.dataset.load(0, 12)
    answers = [str(sample.answer) for sample in samples]
    assert what.history == ()
    after = tuned(what)
    assert what.kept.is_file()
    assert [row["epoch"] for row in what.history] == [1, 2]
    assert what.history[1]["answer"] < what.history[0]["answer"]
    assert (what.history[0]["auxiliary"] > 0) == (strategy != "answers")
    assert after.score(samples, answers).mean() > before.score(samples, answers).mean()
    names = {name for name, _ in after.module.named_modules()}
    assert not any("lora" in name for name in names)  # merged: plain linear layers
    assert set(adapted(after)) == set(adapted(before))
    assert len(adapted(after)) == 2 * build.LAYERS
    assert not any("vision" in name for name in adapted(after))
    again = tuned(what)
    np.testing.assert_allclose(again.score(samples, answers), after.score(samples, answers), rtol=1e-5)


def test_training_on_rounding_error_is_refused(what: Lora) -> None:
    """Hidden state -2: what reads it is a norm, so the objective would follow the order of additions."""
    with pytest.raises(BadInput, match=r"rounding error at decoder.late .* Train at an earlier layer"):
        tuned(replace(what, strategy="direction", layer="decoder.late"))
    with pytest.raises(BadInput, match=r"has no layer 'decoder\.99'"):
        tuned(replace(what, strategy="localisation", layer="decoder.99"))
    assert not what.kept.exists()


@pytest.mark.parametrize("strategy", ["direction", "localisation"])
def test_a_sample_without_a_signal_is_left_out_of_the_objective(
    what: Lora, strategy: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    what = replace(what, strategy=strategy)
    model, samples = what.source.load(), what.dataset.load(0, 3)
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        two = Objective(model, what)(samples[:2])[1]
        monkeypatch.setattr(tuning, "is_signal", lambda states, slopes: torch.tensor([True, True, False]))
        three = Objective(model, what)(samples)[1]
    assert float(three.detach()) == pytest.approx(float(two.detach()), rel=1e-5)


def test_training_says_how_far_it_is(what: Lora, capsys: pytest.CaptureFixture[str]) -> None:
    steps: list[tuple[int, int]] = []
    model = what.source.load()
    for parameter in model.module.parameters():
        parameter.requires_grad_(False)
    model.module.get_submodule("lm_head").weight.requires_grad_(True)
    train(model, what.dataset.load(0, 12), what, lambda done, total: steps.append((done, total)))
    assert steps == [(6, 24), (12, 24), (18, 24), (24, 24)]
    teller = Teller("it", every=0.0)
    teller(6, 24)
    assert capsys.readouterr().err.startswith("training it: 6 of 24 questions, ")


def test_seeds_are_told_apart(what: Lora) -> None:
    labels = [replace(what, strategy="direction", seed=seed, shaken=0.6).label for seed in (1, 2)]
    assert [label.partition(" shaken ")[2] for label in labels] == ["0.6 + direction", "0.6 + direction seed 2"]
    assert len({replace(what, seed=seed).revision for seed in (1, 2)}) == 2


def test_training_is_the_same_twice_and_is_part_of_identity(what: Lora) -> None:
    first = tuned(what)
    what.kept.unlink()
    second = tuned(what)
    samples = GridRelations(4).load(0, 4)
    assert first.score(samples, ["left"] * 4).tolist() == second.score(samples, ["left"] * 4).tolist()
    assert len({replace(what, **change).revision for change in ({}, {"rate": 1e-3}, {"strategy": "direction"})}) == 3
    assert "mechanism" not in what.capabilities
    assert "gradients" in what.capabilities


def test_a_shaken_base_is_the_same_every_time_and_stands_before_what_is_trained_from_it(what: Lora) -> None:
    samples = GridRelations(2).load(0, 2)
    none = replace(what, strategy="none", shaken=1.0)
    plain, once, again = (tuned(w) for w in (replace(none, shaken=0.0), none, none))
    scores = [model.score(samples, ["left"] * 2).tolist() for model in (plain, once, again)]
    assert scores[1] == scores[2] != scores[0] == what.source.load().score(samples, ["left"] * 2).tolist()
    assert not none.kept.exists()
    assert replace(none, strategy="direction").label == f"{none.label} + direction"
    inside = "model.language_model.layers.0.self_attn.q_proj.weight"
    moved = once.module.get_parameter(inside) - plain.module.get_parameter(inside)
    assert float(moved.std() / plain.module.get_parameter(inside).std()) == pytest.approx(1.0, abs=0.05)
    same = "model.multi_modal_projector.linear_1.weight"
    assert bool((once.module.get_parameter(same) == plain.module.get_parameter(same)).all())


def photographs(folder: Path) -> str:
    """Eight pictures, tall and wide in turn, a cup on each side of a bottle twice; the path of their annotations."""
    offsets = ((-20, 0), (20, 0), (0, -20), (0, 20))
    images, notes = [], []
    for k in range(8):
        width, height = (84, 56) if k % 2 else (56, 84)
        images.append({"id": k, "file_name": f"{k:012d}.png", "width": width, "height": height})
        for category, (dx, dy) in ((1, offsets[k // 2]), (2, (0, 0))):
            box = [width / 2 - 4 + dx, height / 2 - 4 + dy, 8, 8]
            notes.append({"image_id": k, "category_id": category, "bbox": box, "iscrowd": 0})
        pixels = np.random.default_rng(k).integers(0, 256, (height, width, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{k:012d}.png")
    names = [{"id": 1, "name": "cup"}, {"id": 2, "name": "bottle"}]
    path = folder / "instances.json"
    path.write_text(json.dumps({"images": images, "annotations": notes, "categories": names}))
    return str(path)


@pytest.mark.parametrize(
    ("kind", "strategy"),
    [("qwen2_vl", "direction"), ("qwen2_5_vl", "localisation"), ("internvl", "contrastive"), ("llava", "direction"),
     ("llava", "localisation")],
)  # fmt: skip
def test_any_family_trains_on_photographs_of_many_sizes(
    kind: str, strategy: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.set_num_threads(1)
    monkeypatch.setenv("KARAT_CACHE", str(tmp_path))
    what = Lora(
        "vlm", strategy, path=str(tiny_vlms.saved(kind, tmp_path / kind)), instances=photographs(tmp_path),
        images=str(tmp_path), samples=8, epochs=1, batch=8,
    )  # fmt: skip
    samples = what.dataset.load(0, 8)
    assert {sample.size for sample in samples} == {(84, 56), (56, 84)}
    before, after = what.source.load(), tuned(what)
    answers = [str(sample.answer) for sample in samples]
    assert after.score(samples, answers).mean() > before.score(samples, answers).mean()


def test_tokens_of_a_cropped_picture_lie_where_they_are_in_it() -> None:
    """A wide picture of which the middle square was seen, as 4 x 4 tokens of 14 pixels."""
    boxes = {"anchor": (14, 0, 14, 14), "target": (42, 28, 14, 14)}
    regions = tuple(Region(role, role, (box,)) for role, box in boxes.items())
    sample = Sample("s", np.zeros((56, 84, 3), np.uint8), regions=regions)
    inputs = Inputs(torch.zeros(1, 3, 56, 56), frames=((0.0, 1 / 6, 1.0, 5 / 6),))
    a, b, aspect = placed([sample], inputs, torch.zeros(1, 4, 4))
    np.testing.assert_allclose([a[0], b[0], [aspect[0], 1.0]], [(0.5, 0.5), (2.5, 2.5), (1.0, 1.0)])
    assert inside([sample], inputs, torch.zeros(1, 4, 4)).reshape(4, 4).nonzero().tolist() == [[2, 2]]


def test_the_loss_knows_flat_cells() -> None:
    """Cells twice as wide as high: one up and one to the right is 26.6 degrees, and so is the truth."""
    loss = compass_loss(spot(1, 3), A, np.array([[3.5, 1.5]]), aspect=0.5, entropy=0.0)
    sector = math.radians(45)  # of eight, the peak's centre is the nearest to the truth
    assert float(loss.detach()) == pytest.approx(1 - math.cos(sector - math.atan(0.5)))


def test_what_is_no_vlm_is_refused() -> None:
    with pytest.raises(BadInput, match="vision-language models"):
        tuned(Lora("gridprog.pure"))
