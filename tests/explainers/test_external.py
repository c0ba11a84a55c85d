"""External explanations: the same numbers as the library itself gives, on the same scale as ours."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from karat.explainers.external import FromCaptum, FromGradCam, Saved
from karat.explainers.gradient import InputXGradient
from karat.kernel.errors import BadInput
from karat.kernel.sample import Sample
from karat.models.blackbox import blackbox
from karat.probe.session import Session
from karat.testing import check_explainer

torch = pytest.importorskip("torch")


def network() -> Session:
    from karat.testing.worlds import spotlight_network

    world = spotlight_network()
    return Session(world.model, world.samples, world.answers)


def test_captum_gives_what_our_own_method_gives() -> None:
    pytest.importorskip("captum")
    theirs, ours = FromCaptum("InputXGradient")(network()), InputXGradient()(network())
    for one, other in zip(theirs, ours, strict=True):
        np.testing.assert_allclose(one.visual, other.visual, atol=1e-6)
        assert one.signed
        assert one.passes == 1


@pytest.mark.parametrize(
    "explainer",
    [
        FromCaptum("IntegratedGradients", options={"n_steps": 5}),
        FromCaptum("DeepLift"),
        FromCaptum("LayerGradCam", layer="maps"),
        FromCaptum("captum_makers:noisy", options={"nt_samples": 3, "stdevs": 0.1}),
    ],
    ids=lambda explainer: explainer.method.rpartition(":")[2],
)
def test_captum_objects_keep_the_laws(explainer: FromCaptum) -> None:
    pytest.importorskip("captum")
    check_explainer(explainer)


def test_grad_cam_gives_what_the_library_gives() -> None:
    pytest.importorskip("pytorch_grad_cam")
    from pytorch_grad_cam import GradCAM
    from pytorch_grad_cam.utils.model_targets import ClassifierOutputTarget

    session = network()
    module = session.torch_model.module
    with GradCAM(model=module, target_layers=[module.maps]) as cam:
        expected = cam(input_tensor=session.inputs.pixels, targets=[ClassifierOutputTarget(1)] * 2)
    for one, other in zip(FromGradCam()(network()), expected, strict=True):
        np.testing.assert_allclose(one.visual, other, atol=1e-6)


def test_an_unknown_method_is_refused() -> None:
    pytest.importorskip("captum")
    with pytest.raises(BadInput, match=r"captum.attr:Nothing"):
        FromCaptum("Nothing")(network())


def without_looking(*names: str) -> Session:
    model = blackbox(lambda images, texts: ["yes"] * len(texts), name="yes")
    return Session(model, [Sample(name, np.zeros((4, 4, 3), np.uint8)) for name in names])


def test_saved_maps_are_found_by_id(tmp_path: Path) -> None:
    one, other = np.arange(4.0).reshape(2, 2), np.ones((3, 2, 2))
    np.savez(tmp_path / "maps.npz", **{"a": one, "b/c": other})
    (tmp_path / "maps").mkdir()
    np.save(tmp_path / "maps/a.npy", one)
    np.save(tmp_path / "maps/b_c.npy", other)
    for path in ("maps.npz", "maps"):
        saved = Saved(str(tmp_path / path))(without_looking("b/c", "a"))
        np.testing.assert_array_equal(saved[1].visual, one)
        np.testing.assert_array_equal(saved[0].visual, np.full((2, 2), 3.0))  # channels added
    np.save(tmp_path / "all.npy", np.stack([one, 2 * one]))
    np.testing.assert_array_equal(Saved(str(tmp_path / "all.npy"))(without_looking("000001"))[0].visual, 2 * one)


def test_missing_maps_are_named(tmp_path: Path) -> None:
    np.savez(tmp_path / "maps.npz", a=np.ones((2, 2)))
    np.save(tmp_path / "flat.npy", np.ones((2, 5)))
    with pytest.raises(BadInput, match="no map called 'z'"):
        Saved(str(tmp_path / "maps.npz"))(without_looking("z"))
    with pytest.raises(BadInput, match="no map of z at"):
        Saved(str(tmp_path))(without_looking("z"))
    with pytest.raises(BadInput, match="by number"):
        Saved(str(tmp_path / "flat.npy"))(without_looking("z"))
    with pytest.raises(BadInput, match=r"must be \(h, w\)"):
        Saved(str(tmp_path / "flat.npy"))(without_looking("0"))


def test_other_maps_are_another_revision(tmp_path: Path) -> None:
    path = tmp_path / "all.npy"
    np.save(path, np.zeros((1, 2, 2)))
    before = Saved(str(path)).revision
    np.save(path, np.ones((1, 3, 2)))
    assert Saved(str(path)).revision != before
    with pytest.raises(BadInput, match="no maps at"):
        _ = Saved(str(tmp_path / "nowhere")).revision
