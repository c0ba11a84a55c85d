"""Traces of models that people use: token grids are checked against what timm itself says they are."""

from __future__ import annotations

from typing import Any

import pytest
import timm
import torch
import torchvision
from torch import Tensor, nn

from karat.kernel.errors import BadInput
from karat.models.cam_layer import cam_layer
from karat.models.structure import attention_modules, grid_of
from karat.probe import trace

SIDE = 64
TIMM = {
    "vit": ("vit_tiny_patch16_224", {"img_size": SIDE, "depth": 2}, ["blocks.0", "blocks.1"]),
    "vit_no_class_token": (
        "vit_tiny_patch16_224",
        {"img_size": SIDE, "depth": 2, "class_token": False, "global_pool": "avg"},
        ["blocks.0"],
    ),
    "vit_registers": ("vit_small_patch14_reg4_dinov2", {"img_size": 56, "depth": 2, "embed_dim": 192}, ["blocks.1"]),
    "vit_wide": ("vit_tiny_patch16_224", {"img_size": (32, 96), "depth": 2}, ["blocks.1"]),
    "deit_distilled": ("deit_tiny_distilled_patch16_224", {"img_size": SIDE, "depth": 2}, ["blocks.1"]),
    "swin": (
        "swin_tiny_patch4_window7_224",
        {"img_size": SIDE, "window_size": 4, "depths": (1, 1, 1, 1), "embed_dim": 24},
        ["layers.0", "layers.3"],
    ),
    "pvt": ("pvt_v2_b0", {"depths": (1, 1, 1, 1)}, ["stages.1", "stages.3"]),
    "hiera": ("hiera_tiny_224", {"img_size": SIDE, "embed_dim": 24, "stages": (1, 1, 2, 1)}, ["blocks.0", "blocks.3"]),
    "resnet": ("resnet18", {}, ["layer2", "layer4"]),
    "convnext": ("convnext_atto", {"depths": (1, 1, 1, 1), "dims": (8, 16, 24, 32)}, ["stages.2"]),
}


def build(key: str) -> tuple[nn.Module, Tensor]:
    name, options, _ = TIMM[key]
    torch.manual_seed(0)
    module = timm.create_model(name, num_classes=5, **options)
    heads = module.get_classifier()
    for head in heads if isinstance(heads, tuple) else (heads,):
        nn.init.normal_(head.weight)  # some start at zero, which makes every gradient zero
    size = options.get("img_size", SIDE)
    height, width = (size, size) if isinstance(size, int) else size
    return module.eval(), torch.rand(2, 3, height, width)


@pytest.mark.parametrize("key", TIMM)
def test_grids_equal_timms_own(key: str) -> None:
    module, pixels = build(key)
    layers = TIMM[key][2]
    with torch.no_grad():
        steps = module.forward_intermediates(pixels, norm=False, intermediates_only=True, output_fmt="NCHW")
    with trace(module, pixels, [1, 2], layers=layers) as recording:
        for layer in layers:
            ours = recording.spatial(layer)
            assert any(ours.shape == step.shape and torch.allclose(ours, step, atol=1e-5) for step in steps), layer
            assert recording.spatial(layer, "gradients").shape == ours.shape


@pytest.mark.parametrize("key", TIMM)
def test_the_last_layer_has_a_map_and_a_gradient_everywhere(key: str) -> None:
    module, pixels = build(key)
    found = cam_layer(module, tuple(pixels.shape[2:]))
    assert found is not None
    layer = found.name
    with trace(module, pixels, [1, 2], layers=[layer]) as recording:
        gradient = recording.spatial(layer, "gradients").abs().sum(1)
        assert bool((gradient > 0).all()), f"{layer}: {gradient.shape}"


@pytest.mark.parametrize("key", [key for key in TIMM if key not in ("resnet", "convnext")])
def test_attention_of_every_layer_sums_to_one_and_changes_nothing(key: str) -> None:
    module, pixels = build(key)
    with torch.no_grad():
        expected = module(pixels)[[0, 1], [1, 2]]
    with trace(module, pixels, [1, 2], want={"attention", "attention_gradients"}) as recording:
        assert list(recording.attention) == attention_modules(module)
        for maps in recording.attention.values():
            torch.testing.assert_close(maps.sum(-1), torch.ones_like(maps.sum(-1)))
        assert all(maps.abs().sum() > 0 for maps in recording.attention_gradients.values())
        torch.testing.assert_close(recording.scores, expected, atol=1e-5, rtol=1e-5)


def test_hiera_before_its_pooling_is_refused() -> None:
    module, pixels = build("hiera")
    with (
        trace(module, pixels, [1, 2], layers=["blocks.1.norm1"]) as recording,
        pytest.raises(BadInput, match=r"before the block pools"),
    ):
        recording.spatial("blocks.1.norm1")


def test_torchvision_vit() -> None:
    torch.manual_seed(0)
    module = torchvision.models.VisionTransformer(SIDE, 16, 2, 2, 24, 24, num_classes=5)
    nn.init.normal_(module.heads.head.weight)
    pixels = torch.rand(2, 3, SIDE, SIDE)
    chosen = cam_layer(module, (SIDE, SIDE))
    assert chosen is not None
    assert chosen.name == "encoder.layers.encoder_layer_1.ln_1"
    with trace(module, pixels, [1, 2], layers=["conv_proj", "encoder.layers.encoder_layer_1.ln_1"]) as recording:
        assert (
            recording.spatial("conv_proj").shape
            == recording.spatial("encoder.layers.encoder_layer_1.ln_1").shape
            == (2, 24, 4, 4)
        )


def test_wrong_guesses_are_errors_with_shapes() -> None:
    class Odd(nn.Module):
        def __init__(self, shape: tuple[int, ...]) -> None:
            super().__init__()
            self.shape = shape
            self.inner = nn.Identity()

        def forward(self, x: Tensor) -> Tensor:
            out = x.flatten(1).sum(1).reshape(-1, *[1] * len(self.shape)).expand(-1, *self.shape)
            return self.inner(out).flatten(1)[:, :2]

    cases = [
        ((17, 8), r"\(2, 17, 8\): 17 tokens after 0 prefix tokens make no grid"),
        ((3, 5, 8), r"\(2, 3, 5, 8\) for a 64×64 input: neither order"),
        ((8, 8, 8), r"\(2, 8, 8, 8\) for a 64×64 input: both orders"),
        ((8,), r"shape \(2, 8\); a map needs"),
    ]
    for shape, says in cases:
        with (
            trace(Odd(shape), torch.rand(2, 3, 64, 64), [0, 1], layers=["inner"]) as recording,
            pytest.raises(BadInput, match=says),
        ):
            recording.spatial("inner")


def test_grids_keep_the_proportions() -> None:
    assert grid_of(12, (30, 40)) == (3, 4)
    assert grid_of(12, (40, 30)) == (4, 3)
    assert grid_of(12, (30, 30)) is None
    assert grid_of(0, (30, 30)) is None


def test_hugging_face_encoder() -> None:
    from transformers import CLIPVisionConfig, CLIPVisionModel

    torch.manual_seed(0)
    config = CLIPVisionConfig(
        hidden_size=16, intermediate_size=16, num_hidden_layers=2, num_attention_heads=2, image_size=32, patch_size=8
    )
    module = CLIPVisionModel(config).eval()
    layers = ["embeddings.patch_embedding", "encoder.layers.1"]
    pixels = torch.rand(2, 3, 32, 32)
    want = {"activations", "gradients", "attention", "attention_gradients"}
    with trace(module, pixels, lambda out: out.pooler_output[:, 0], layers, want) as recording:
        assert recording.spatial("encoder.layers.1").shape == (2, 16, 4, 4)
        assert recording.spatial("embeddings.patch_embedding").shape == (2, 16, 4, 4)
        assert [maps.shape for maps in recording.attention.values()] == [(2, 2, 17, 17)] * 2
        assert all(maps.abs().sum() > 0 for maps in recording.attention_gradients.values())
    eager = CLIPVisionModel._from_config(config, attn_implementation="eager").eval()
    eager.load_state_dict(module.state_dict())
    with torch.no_grad():
        expected = eager(pixels, output_attentions=True).attentions
    with trace(eager, pixels, lambda out: out.pooler_output[:, 0], want={"attention"}) as recording:
        for maps, theirs in zip(recording.attention.values(), expected, strict=True):
            torch.testing.assert_close(maps, theirs)


def test_detectors() -> None:
    torch.manual_seed(0)
    module: Any = torchvision.models.detection.fasterrcnn_mobilenet_v3_large_320_fpn(
        weights=None, weights_backbone=None, num_classes=4, min_size=96, max_size=128, box_score_thresh=0.0
    )
    images = [torch.rand(3, 96, 128), torch.rand(3, 96, 128)]

    def best(detections: list[dict[str, Tensor]]) -> Tensor:
        return torch.stack([one["scores"].max() for one in detections])

    with trace(module, images, best, layers=["backbone.body.16"]) as recording:
        assert recording.spatial("backbone.body.16").shape == (2, 960, 3, 4)
        assert bool((recording.gradients["backbone.body.16"].abs().sum((1, 2, 3)) > 0).all())
    with pytest.raises(BadInput, match="list of images"), trace(module, images, best, layers=["pixels"]):
        pass


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_other_dtypes(dtype: torch.dtype) -> None:
    module, pixels = build("vit")
    module.to(dtype)
    with trace(
        module, pixels.to(dtype), [1, 2], layers=["blocks.1.norm1"], want={"gradients", "attention"}
    ) as recording:
        assert recording.gradients["blocks.1.norm1"].dtype == dtype
        assert bool(recording.gradients["blocks.1.norm1"].isfinite().all())
