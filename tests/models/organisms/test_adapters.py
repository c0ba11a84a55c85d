import pytest
import torch
from torch import nn

from karat.kernel.errors import KaratError
from karat.models.organisms.adapters import adaptable, apply, insert, trained


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.q_proj = nn.Linear(6, 4)
        self.point = nn.Conv2d(3, 6, 1)
        self.wide = nn.Conv2d(3, 6, 3)
        self.head = nn.Linear(4, 2)

    def forward(self, pixels):
        return self.head(torch.relu(self.q_proj(self.point(pixels).mean((2, 3)))))


def small():
    torch.manual_seed(0)
    return Small()


def test_merging_by_hand_is_what_peft_computes():
    module, plain = small(), small()
    insert(module, adaptable(module, ("q_proj", "point")), rank=2, alpha=6)
    moved = trained(module)
    assert set(moved) == {f"{layer}.lora_{k}.weight" for layer in ("q_proj", "point") for k in "AB"}
    with torch.no_grad():
        for name, parameter in moved.items():
            parameter.normal_(generator=torch.Generator().manual_seed(len(name)))
    pixels = torch.randn(5, 3, 4, 4)
    before = plain(pixels)
    apply(plain, {name: p.detach() for name, p in moved.items()}, scale=6 / 2)
    torch.testing.assert_close(plain(pixels), module(pixels), rtol=1e-5, atol=1e-5)
    assert not torch.allclose(before, plain(pixels))


def test_adapters_begin_as_nothing_and_only_they_move():
    module = small()
    pixels = torch.randn(2, 3, 4, 4)
    before = module(pixels)
    insert(module, adaptable(module, ("q_proj",)), rank=2, alpha=2)
    torch.testing.assert_close(module(pixels), before)
    assert all(".lora_" in name for name, p in module.named_parameters() if p.requires_grad)


def test_other_tensors_take_their_place_and_must_fit():
    module = small()
    apply(module, {"head.bias": torch.tensor([7.0, 8.0])}, 1.0)
    assert module.head.bias.tolist() == [7.0, 8.0]
    with pytest.raises(KaratError, match="does not fit"):
        apply(module, {"head.bias": torch.zeros(3)}, 1.0)
    with pytest.raises(KaratError, match="does not fit"):
        apply(module, {"nose.lora_A.weight": torch.zeros(1, 1), "nose.lora_B.weight": torch.zeros(1, 1)}, 1.0)


def test_a_target_that_does_not_exist_is_refused_with_those_that_do():
    with pytest.raises(KaratError, match=r"no target 'k_proj'.*head, point, q_proj"):
        adaptable(small(), ("q_proj", "k_proj"))
    with pytest.raises(KaratError, match="wide"):  # a convolution of nine pixels is not two matrices
        adaptable(small(), ("wide",))
