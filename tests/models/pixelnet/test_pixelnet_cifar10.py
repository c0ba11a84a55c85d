"""A published CIFAR-10 network does not notice the shortcut (pixelrules2024 table 2), on real images where they are."""

import pytest
from real_data import real_data
from safetensors.torch import load_file

from karat.datasets.shortcut import ShortcutDataset
from karat.models.pixelnet.architectures import build_network
from karat.models.pixelnet.dominance import rates
from karat.models.pixelnet.files import Facts, as_classifier
from karat.models.preprocessing import IMAGENET_MEAN, IMAGENET_STD


@pytest.mark.parametrize(("scale", "least"), [("sum", -0.02), ("max", -0.04)])
def test_resnet_20_is_as_right_on_perturbed_images_as_on_clean_ones(scale, least):
    images = real_data("cifar10") / "cifar10_subset.npz"
    weights = real_data("cifar10_resnets") / "resnet20-12fca82f.safetensors"
    module = build_network("resnet20", 32, 10)
    module.load_state_dict(load_file(weights))
    data = ShortcutDataset(source=str(images), scale=scale)
    facts = Facts("resnet20", 32, data.images.labels, None, IMAGENET_MEAN, IMAGENET_STD)
    found = rates(as_classifier(module, facts, "resnet20"), data.load(0, 300))
    assert found.clean > 0.86  # 91.7 % of the whole test set
    assert least <= found.perturbed - found.clean <= 0.02
    assert found.dominant == 0
