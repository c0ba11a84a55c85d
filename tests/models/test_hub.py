"""Weights are held once for all processes of a machine, as the system counts its pages; and who says so is right."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from karat.models.hub import shares_weights
from karat.models.vlm import VLMRecipe
from tests.models.tiny_llava import make_module, make_processor

pytestmark = pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="needs Linux's counts of pages")

READS = """
import sys
from pathlib import Path

import torch

kind, path, dtype = sys.argv[1:]
if kind == "vlm":
    from karat.models.vlm import vlm

    module = vlm(path, dtype=dtype).module
else:
    from karat.models.local_weights import local_weights, read_weights

    module = torch.nn.Linear(2048, 2048)
    read_weights(module, local_weights(path), "a linear map")
with torch.no_grad():
    total = sum(float(p.double().sum()) for p in module.parameters())  # every page is touched
files = (".safetensors", ".pth")
print("ready", flush=True)
sys.stdin.readline()
held = {"Shared": 0, "Private": 0}
mine = False
for line in Path("/proc/self/smaps").read_text().splitlines():
    name, _, rest = line.partition(":")
    if "-" in name.split(" ")[0]:
        mine = line.endswith(files)
    elif mine and name.split("_")[0] in held and name.endswith(("_Clean", "_Dirty")):
        held[name.split("_")[0]] += int(rest.split()[0]) * 1024
print(held["Shared"], held["Private"], total, flush=True)
"""


def held_by_two(kind: str, path: Path, dtype: str = "float32") -> list[tuple[int, int, float]]:
    """(shared, private) bytes of the file's pages in each of two processes that live at once, and what they read."""
    command = [sys.executable, "-c", READS, kind, str(path), dtype]
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    both = [subprocess.Popen(command, **pipes) for _ in range(2)]
    try:
        for one in both:
            assert one.stdout.readline().strip() == "ready"
        answers = []
        for one in both:
            one.stdin.write("\n")
            one.stdin.flush()
            shared, private, total = one.stdout.readline().split()
            answers.append((int(shared), int(private), float(total)))
        return answers
    finally:
        for one in both:
            one.kill()
            one.wait()


@pytest.fixture(scope="module")
def llava(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of 17 MB, so that pages count and not their rims."""
    folder: Path = tmp_path_factory.mktemp("llava")
    processor = make_processor()
    make_module(processor, vision=(3, 128), decoder=(4, 256)).save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder


def test_two_workers_hold_a_models_weights_once(llava: Path) -> None:
    size = (llava / "model.safetensors").stat().st_size
    for shared, private, _ in held_by_two("vlm", llava):
        assert shared > 0.9 * size
        assert private < 0.1 * size
    assert shares_weights(str(llava), None, "float32")
    assert VLMRecipe(path=str(llava)).shares_weights()


def test_converted_weights_are_each_workers_own_and_said_to_be(llava: Path) -> None:
    size = (llava / "model.safetensors").stat().st_size
    for shared, private, _ in held_by_two("vlm", llava, "bfloat16"):
        assert shared + private < 0.1 * size  # what is computed with lies elsewhere
    assert not shares_weights(str(llava), None, "bfloat16")
    assert not shares_weights(str(llava), None, "float32", device="cuda")
    assert not VLMRecipe(path=str(llava), quantised="8bit").shares_weights()
    assert not VLMRecipe(path=str(llava), adapter="somewhere").shares_weights()
    assert not shares_weights("nobody/has-this", None, "float32")


@pytest.mark.parametrize("ending", [".safetensors", ".pth"])
def test_two_workers_hold_local_weights_once(tmp_path: Path, ending: str) -> None:
    from safetensors.torch import save_file

    torch.manual_seed(0)
    state = torch.nn.Linear(2048, 2048).state_dict()
    file = tmp_path / f"weights{ending}"
    save_file(state, file) if ending == ".safetensors" else torch.save(state, file)
    expected = sum(float(each.double().sum()) for each in state.values())
    for shared, private, total in held_by_two("local", file):
        assert shared > 0.9 * file.stat().st_size
        assert private < 0.1 * file.stat().st_size
        assert total == pytest.approx(expected)
