"""The loop: resume equals no interruption, and checkpoints are trusted only when they fit."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import pytest
import torch

from karat.kernel.errors import BadInput
from karat.models.training import checkpoint
from karat.models.training.loop import make_optimizer
from karat.models.training.progress import Event
from karat.models.training.recipe import Recipe, Refinement
from karat.models.training.twins import build_trainee, learning_rate, train_twin

RECIPE = Recipe(
    "gridnet", "pure", steps=8, batch=8, chunk=3, warmup=2, decay_steps=3, grounding_steps=2, detected=4,
    evaluate_every=2, checkpoint_minutes=0.0,
)  # fmt: skip


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, torch.Tensor], list[Event]]:
    """An uninterrupted run: where it is, its weights, its events."""
    out, events = tmp_path_factory.mktemp("run"), list[Event]()
    module = train_twin(RECIPE, out, progress=events.append)
    return out, module.state_dict(), events


def same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


@pytest.mark.parametrize("stop", [1, 4, 7])
def test_resume_is_as_if_never_stopped(
    stop: int, tmp_path: Path, finished: tuple[Path, dict[str, torch.Tensor], list[Event]]
) -> None:
    train_twin(RECIPE, tmp_path, stop=stop)
    assert not same(build_trainee(RECIPE).state_dict(), finished[1])
    resumed = train_twin(RECIPE, tmp_path)
    assert same(resumed.state_dict(), finished[1])
    curve = (tmp_path / "curve.csv").read_text().splitlines()
    steps = [int(line.split(",")[0]) for line in curve[1:]]
    assert steps == sorted(set(steps))
    assert steps[-1] == 8


def test_events_tell_progress(finished: tuple[Path, dict[str, torch.Tensor], list[Event]]) -> None:
    out, _, events = finished
    assert [event.step for event in events] == [2, 4, 6, 8]
    assert [event.phase for event in events] == ["grounding", "answers", "answers", "answers"]
    assert events[0].accuracy is None
    assert events[-1].accuracy is not None
    assert events[-1].remaining == 0
    assert events[-1].loss < events[0].loss
    assert len((out / "curve.csv").read_text().splitlines()) == 5


def test_a_run_can_be_prolonged_from_its_trunk_only(tmp_path: Path) -> None:
    longer = dataclasses.replace(RECIPE, steps=10)
    train_twin(longer, tmp_path / "whole")
    train_twin(RECIPE, tmp_path / "part", stop=RECIPE.trunk)
    prolonged = train_twin(longer, tmp_path / "part")
    module = build_trainee(longer)
    checkpoint.restore(tmp_path / "whole", longer, module, make_optimizer(longer, module))
    assert same(prolonged.state_dict(), module.state_dict())
    with pytest.raises(BadInput, match="begun to fall"):
        train_twin(dataclasses.replace(RECIPE, steps=12), tmp_path / "part")


def test_the_last_stage_touches_nothing_before_it(
    tmp_path: Path, finished: tuple[Path, dict[str, torch.Tensor], list[Event]]
) -> None:
    """A finished run can be refined; begun from the start with that stage, it ends with the same weights."""
    refined = dataclasses.replace(RECIPE, refine=(Refinement(3, changed=0.5),))
    shutil.copytree(finished[0], tmp_path / "later")
    later = train_twin(refined, tmp_path / "later")
    events: list[Event] = []
    assert same(train_twin(refined, tmp_path / "whole", progress=events.append).state_dict(), later.state_dict())
    assert not same(later.state_dict(), finished[1])
    assert (events[-1].step, events[-1].phase) == (11, "changes")
    with pytest.raises(BadInput, match="begun to fall"):
        train_twin(dataclasses.replace(refined, refine=(Refinement(4, changed=0.5),)), tmp_path / "later")
    twice = dataclasses.replace(refined, refine=(*refined.refine, Refinement(2, changed=0.0, compare=3.0)))
    assert same(train_twin(twice, tmp_path / "later").state_dict(), train_twin(twice, tmp_path / "twice").state_dict())


def test_a_fresh_stage_can_begin_at_exported_weights(
    tmp_path: Path, finished: tuple[Path, dict[str, torch.Tensor], list[Event]]
) -> None:
    """gridnet exports everything that is trained; halves of halves lose nothing, so the two runs meet bit for bit."""
    stage = Refinement(4, widened=0.5, emptied=0.5, fresh=True)
    refined = dataclasses.replace(RECIPE, refine=(stage,))
    module = build_trainee(RECIPE)
    module.load_state_dict(finished[1])
    module.round()
    weights = module.export(tmp_path / "exported")
    started = train_twin(refined, tmp_path / "started", start=weights, stop=10)
    started = train_twin(refined, tmp_path / "started", start=weights)  # goes on from its checkpoint
    whole = build_trainee(refined)
    whole.load_state_dict(module.state_dict())
    checkpoint.save(tmp_path / "whole", refined, whole, make_optimizer(refined, whole), checkpoint.Place(8, 0.0))
    assert same(train_twin(refined, tmp_path / "whole").state_dict(), started.state_dict())
    assert not same(started.state_dict(), module.state_dict())
    with pytest.raises(BadInput, match="fresh: true"):
        train_twin(RECIPE, tmp_path / "none", start=weights)


def test_another_recipe_is_refused(finished: tuple[Path, dict[str, torch.Tensor], list[Event]]) -> None:
    with pytest.raises(BadInput, match="another recipe"):
        train_twin(dataclasses.replace(RECIPE, seed=1), finished[0])
    with pytest.raises(BadInput, match=r"gridnet\.pure"):
        train_twin(dataclasses.replace(RECIPE, mode="spur"), finished[0])


def test_a_truncated_checkpoint_is_refused(tmp_path: Path) -> None:
    train_twin(RECIPE, tmp_path, stop=1)
    path = tmp_path / checkpoint.NAME
    path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(BadInput, match="no whole safetensors"):
        train_twin(RECIPE, tmp_path)
    assert train_twin(RECIPE, tmp_path, resume=False, stop=1) is not None


def test_seeds_differ() -> None:
    one = build_trainee(RECIPE).state_dict()
    assert same(one, build_trainee(RECIPE).state_dict())
    assert not same(one, build_trainee(dataclasses.replace(RECIPE, seed=1)).state_dict())


def test_learning_rate_rises_stays_and_falls() -> None:
    recipe = Recipe("gridnet", "pure", steps=100, warmup=10, decay_steps=20, learning_rate=1.0)
    rates = [learning_rate(recipe, step) for step in range(100)]
    assert rates[0] == pytest.approx(0.1)
    assert rates[10:80] == [1.0] * 70
    assert rates[99] == pytest.approx(0.05)
    assert sorted(rates[80:], reverse=True) == rates[80:]


def test_spur_is_told_nothing_of_anchors_and_relations() -> None:
    from karat.models.gridnet.trainee import supervision
    from karat.models.training.batches import batch_at

    batch = batch_at(dataclasses.replace(RECIPE, mode="spur"), 0, 32)
    roles, word_roles, relations = supervision(batch, "spur")
    assert roles.max() <= 5
    assert word_roles.max() < 5
    assert not relations.any()
    assert ((roles == 3) == (batch.roles == 3)).all()
    kept = supervision(batch, "pure")
    assert kept[0] is batch.roles


@pytest.mark.slow
def test_two_processes_train_like_one(tmp_path: Path) -> None:
    """Each process takes half of every batch; averaged gradients are those of the whole up to per-half weights."""
    recipe = dataclasses.replace(RECIPE, steps=4, altered=0.0)
    from karat.models.training.finish import load_checkpoint
    from karat.models.training.twins import spread

    spread(recipe, tmp_path, resume=True, devices=2)
    module, place = load_checkpoint(recipe, tmp_path)
    assert place.step == 4
    alone = train_twin(recipe, tmp_path / "alone").state_dict()
    start = build_trainee(recipe).state_dict()
    moved = torch.cat([(alone[k] - start[k]).flatten() for k in start])
    also = torch.cat([(module.state_dict()[k] - start[k]).flatten() for k in start])
    assert float(torch.cosine_similarity(moved, also, dim=0)) > 0.7
