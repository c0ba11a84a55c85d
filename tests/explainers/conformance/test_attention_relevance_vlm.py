"""What holds for attention, relevance and VLM explainers alike: one trace, architectures, dtypes, NaN, gridprog."""

from __future__ import annotations

from typing import Any

import architectures
import numpy as np
import pytest
import torch
from architectures import BUILDERS, DYNAMIC, READS_TEXT, model, samples, targets
from torch import nn

from karat.datasets.grid import GridSample, generate
from karat.explainers.attention import Daam, Gar, Generic, GradRollout, Raw, Rollout
from karat.explainers.cam import GradCam, LayerCam
from karat.explainers.relevance import AttnLrp, CpLrp
from karat.explainers.vlm import LlavaCam, Tam
from karat.kernel.errors import BadInput
from karat.kernel.registry import registered
from karat.models.gridprog import GridProg
from karat.probe import Session

ATTENTION = (Raw(), Rollout(), Rollout("max", 0.5), GradRollout(), Generic(), Gar(0.5), Daam())
SEQUENCES = ("vit", "gridprog", "gridnet", "llava", "clip", *DYNAMIC)


def explainers(key: str) -> list[Any]:
    chosen: list[Any] = [AttnLrp(), CpLrp()]
    if key in SEQUENCES:
        chosen += ATTENTION
    if key in ("llava", *DYNAMIC):
        chosen += [LlavaCam(copies=2), Tam()]
    return chosen


def test_the_table_is_complete() -> None:
    names = {name for name in registered("explainer") if name.startswith(("attention/", "relevance/", "vlm/"))}
    assert names == {explainer.card.name for explainer in explainers("llava")}


@pytest.mark.parametrize("key", BUILDERS)
def test_every_architecture(key: str) -> None:
    """Maps of the image and, where there is a question, a score for each of its words; batches change nothing."""
    session = architectures.session(key)
    session.expect(explainers(key))
    for explainer in explainers(key):
        attributions = explainer(session)
        for i, (one, sample) in enumerate(zip(attributions, samples(key), strict=True)):
            assert one.visual is not None
            assert np.isfinite(one.visual).all(), explainer
            assert (one.words is not None) == (key in READS_TEXT)
            if one.words is not None:
                assert one.words.shape == (len(sample.words),)
            rectified = key in DYNAMIC and isinstance(explainer, LlavaCam | Tam)  # random weights may say only no
            if not (key == "gridprog" and explainer in (CpLrp(), Rollout("max", 0.5))) and not rectified:
                assert one.problem("visual") is None, (explainer, i)
        assert any(one.problem("visual") is None for one in attributions) or key == "gridprog", explainer
        if not isinstance(explainer, LlavaCam):
            alone = explainer(session.only(1))[0]
            scale = np.abs(alone.visual).max()
            np.testing.assert_allclose(alone.visual, attributions[1].visual, rtol=1e-3, atol=1e-4 * scale)


@pytest.mark.parametrize("key", ["swin", "resnet"])
def test_windows_and_convolutions_have_no_rollout(key: str) -> None:
    for explainer in ATTENTION:
        with pytest.raises(BadInput, match=r"follows attention over one sequence .* Use a CAM"):
            explainer(architectures.session(key))


def test_one_trace_serves_rollouts_cams_and_tam() -> None:
    session = architectures.session("llava")
    shared: list[Any] = [*ATTENTION, GradCam("decoder.2"), LayerCam("vision.last"), Tam(), LlavaCam(copies=0)]
    session.expect(shared[:-1])
    for explainer in shared[:-1]:
        explainer(session)
    assert (session.cost.traces, session.cost.backwards) == (1, 1)
    assert session.cost.shared == len(shared) - 2
    AttnLrp()(session)
    assert session.cost.traces == 2  # its backward is another


def test_no_map_is_kept() -> None:
    """Of an attention layer a shared trace holds what is linear in the number of tokens."""
    session = architectures.session("llava")
    session.expect(ATTENTION)
    Rollout()(session)
    trace = session._traces[0][1]
    assert not trace.attention
    length = next(iter(trace.heads.values())).queries
    for part in trace.heads.values():
        kept = [part.query, part.key, part.value, part.output_gradient]
        assert all(t is not None and t.shape[-1] == 8 and t.shape[-2] == length for t in kept)
        assert part.formed is None


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("key", ["vit", "gridnet", "llava", "clip", *DYNAMIC])
def test_three_dtypes(key: str, dtype: torch.dtype) -> None:
    """The maps of half precision are those of float64, coarser."""
    chosen = [e for e in explainers(key) if e not in (Rollout("max", 0.5), Gar(0.5))]  # thresholds flip on rounding
    maps = []
    for kind in (torch.float64, dtype):
        adapter = BUILDERS[key]()
        adapter.module.to(kind)
        session = Session(adapter, samples(key), targets(key))
        maps.append([[one.visual.ravel() for one in explainer(session)] for explainer in chosen])
    for explainer, exact, coarse in zip(chosen, *maps, strict=True):
        for a, b in zip(exact, coarse, strict=True):
            limit = 0.999 if dtype == torch.float32 else 0.9
            assert np.isfinite(b).all()
            if np.any(a):  # random weights may leave a rectified map empty
                assert a @ b / np.sqrt((a @ a) * (b @ b)) > limit, explainer


def _poisoned(key: str, layer: str, forward: bool) -> Any:
    """A model one of whose attention layers gives NaN, or passes back NaN."""
    adapter = BUILDERS[key]()
    part = adapter.module.get_submodule(layer)

    class Back(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x.view_as(x)

        @staticmethod
        def backward(ctx: Any, *slopes: torch.Tensor) -> torch.Tensor:
            return slopes[0] * float("nan")

    def spoil(_: nn.Module, args: Any, kwargs: Any) -> Any:
        bad = (lambda x: x * float("nan")) if forward else Back.apply
        if "hidden_states" in kwargs:
            return args, {**kwargs, "hidden_states": bad(kwargs["hidden_states"])}
        return (bad(args[0]), *args[1:]), kwargs

    part.register_forward_pre_hook(spoil, with_kwargs=True)
    return adapter


@pytest.mark.parametrize("key", ["vit", "llava"])
def test_nan_is_named_by_its_layer(key: str) -> None:
    names = model(key).attention_layers
    session = Session(_poisoned(key, names[2], forward=True), samples(key), targets(key))
    for explainer in [*ATTENTION, AttnLrp(), CpLrp()]:
        with pytest.raises(BadInput, match=rf"attention of {names[2]} is NaN"):
            explainer(session)
    # What comes back through layer 2's input spoils the gradients of every layer before it: layer 1 is met first.
    session = Session(_poisoned(key, names[2], forward=False), samples(key), targets(key))
    for explainer in (GradRollout(), Generic(), Gar(0.5), Daam(), AttnLrp(), CpLrp()):
        with pytest.raises(BadInput, match=rf"(gradient|relevance) of {names[1]} is NaN"):
            explainer(session)
    if key == "llava":
        assert all(
            np.isfinite(attribution.visual).all() for attribution in Rollout()(session)
        )  # attention itself is sound


BUCKETS = ("D1_M_F0_d0.3", "D2_M_F0_d0.7", "D2_CMP_F0_d0.7", "D2_SO_F0_d0.3")


@pytest.mark.parametrize("variant", ["pure", "spur"])
def test_maps_of_gridprog_lie_on_what_it_was_built_to_use(variant: str) -> None:
    """Mass lies on the cells that the mechanism uses; anchors are seen in the twin that looks at them, and only there.

    Methods that keep positive evidence do not see anchors in counting questions: a relation only takes away.
    """
    twin = GridProg(variant).load()
    scenes: list[GridSample] = [sample for name in BUCKETS for sample in generate(name, 3, seed=9)]
    session = Session(twin, scenes, twin.answer(scenes))
    chosen = [Raw(), Rollout(), GradRollout(), Generic(), Gar(0.0), Daam(), AttnLrp("vision.last")]
    for explainer in chosen:
        anchors = []
        for attribution, sample in zip(explainer(session), scenes, strict=True):
            used = sample.scene.cells_of(*sample.mechanisms[str(twin.mechanism)].regions)
            share = np.abs(attribution.visual) / np.abs(attribution.visual).sum()
            assert share[used].sum() > 0.95, (explainer, sample.id)
            anchors.append(share[sample.scene.cells_of("anchor")].sum())
        if variant == "spur":
            assert max(anchors) < 0.01, explainer
        elif isinstance(explainer, Rollout):
            assert min(anchors) > 0.03


def test_held_attention_shows_no_image_in_a_model_that_computes_by_looking() -> None:
    """gridprog's values are constants: what it sees decides where it looks, and that is what cplrp holds fixed."""
    session = architectures.session("gridprog")
    for attribution in CpLrp()(session):
        assert attribution.problem("visual") == "map: all zero"
        assert attribution.notes["relevance"] == pytest.approx(
            attribution.notes["score"], rel=1e-3
        )  # all of it on words
