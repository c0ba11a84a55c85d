"""Weights files: what half precision rounds, and that the classifier stays the one it was."""

import torch
from safetensors.torch import load_file

from karat.models.pixelnet.architectures import build_network
from karat.models.pixelnet.files import Facts, load_classifier, save_network


def test_half_precision_rounds_what_was_learned_and_nothing_else(tmp_path):
    torch.manual_seed(0)
    module = build_network("resnet-small", 16, 3).eval()
    module.bn1.running_var.fill_(1e-9)  # of a channel that hardly varies: 0 in 16 bits
    facts = Facts("resnet-small", 16, ("a", "b", "c"))
    path = save_network(module, facts, tmp_path / "half.safetensors", half=True)
    kept, learned = load_file(path), {name for name, _ in module.named_parameters()}
    assert {name for name, tensor in kept.items() if tensor.dtype == torch.float16} == learned
    assert torch.equal(kept["bn1.running_var"], module.bn1.running_var)
    pixels = torch.randn(4, 3, 16, 16)
    again = load_classifier(path, "again").module
    assert next(again.parameters()).dtype == torch.float32
    with torch.no_grad():
        torch.testing.assert_close(again(pixels), module(pixels), rtol=0.05, atol=0.05)
    whole = save_network(module, facts, tmp_path / "whole.safetensors")
    assert path.stat().st_size < 0.6 * whole.stat().st_size
