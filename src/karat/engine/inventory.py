"""`Inventory`: what a machine has for models to run on. Plain data, so that tests need no GPU to try any machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_VISIBLE = ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")  # the first that is set hides GPUs; else the last would
_ASK_TORCH = """
import json, torch
gpus = [torch.cuda.get_device_properties(k).total_memory for k in range(torch.cuda.device_count())]
print(json.dumps({"gpus": gpus, "mps": torch.backends.mps.is_available()}))
"""


@dataclass(frozen=True)
class Gpu:
    """`name` is what a worker's environment calls it ("0", "GPU-8f3c..."); `memory` its bytes, where known."""

    name: str
    memory: int | None = None


@dataclass(frozen=True)
class Inventory:
    """`memory` are bytes that programs could still take, None where the machine does not say. `gpus` are those that
    this process may see; a worker is shown some of them in the environment `variable`."""

    cores: int
    memory: int | None = None
    gpus: tuple[Gpu, ...] = ()
    mps: bool = False
    variable: str = _VISIBLE[-1]

    @staticmethod
    def here(accelerators: bool) -> Inventory:
        """This machine. GPUs are looked for (in a process of its own, for torch takes seconds) only where asked."""
        variable = next((name for name in _VISIBLE if name in os.environ), _VISIBLE[-1])
        gpus, mps = _accelerators(os.environ, variable) if accelerators else ((), False)
        return Inventory(_cores(), free_bytes(), gpus, mps, variable)


def free_bytes() -> int | None:
    """Memory that programs of this machine could still take, or of the container around them; None where it does not
    say."""
    return min((size for size in (_machine_bytes(), group_bytes()) if size is not None), default=None)


def group_bytes(root: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")) -> int | None:
    """What the control group of this process, and those above it, still let it take; None where nothing is limited.
    Pages of files that nobody has used for a while can be had back at once."""
    groups = own.read_text(encoding="utf-8").splitlines() if own.is_file() else []
    path = next((line[3:].strip("/") for line in groups if line.startswith("0::")), "")
    left = []
    for folder in ((root / path), *(root / path).parents):
        try:
            limit = (folder / "memory.max").read_text(encoding="utf-8").strip()
            if limit != "max":
                counts = dict(line.split() for line in (folder / "memory.stat").read_text("utf-8").splitlines())
                used = int((folder / "memory.current").read_text(encoding="utf-8"))
                left.append(max(0, int(limit) - used + int(counts.get("inactive_file", 0))))
        except (OSError, ValueError):  # the root has no limit of its own; other systems have no groups
            pass
        if folder == root:
            break
    return min(left, default=None)


def _machine_bytes() -> int | None:
    listed = Path("/proc/meminfo")
    for line in listed.read_text(encoding="utf-8").splitlines() if listed.is_file() else []:
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):
        return None


def _cores() -> int:
    """Those that this process may use, which a batch system may have made fewer than there are."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _accelerators(environment: Mapping[str, str], variable: str) -> tuple[tuple[Gpu, ...], bool]:
    """The GPUs that torch sees here, under the names by which a worker can be shown them; and whether there is mps."""
    try:
        process = subprocess.run([sys.executable, "-c", _ASK_TORCH], capture_output=True, text=True, timeout=120)
        answer = json.loads(process.stdout.splitlines()[-1])
    except (OSError, subprocess.TimeoutExpired, ValueError, IndexError):  # no torch, or one that does not start
        return (), False
    return named_gpus(answer["gpus"], environment.get(variable)), bool(answer["mps"])


def named_gpus(memories: list[int], visible: str | None) -> tuple[Gpu, ...]:
    """The k-th GPU that torch sees is the k-th that the environment lets it see.

    >>> [gpu.name for gpu in named_gpus([8, 8], "3,GPU-5a")], [gpu.name for gpu in named_gpus([8, 8], None)]
    (['3', 'GPU-5a'], ['0', '1'])
    """
    names = [str(k) for k in range(len(memories))] if visible is None else [n.strip() for n in visible.split(",")]
    return tuple(Gpu(name, memory) for name, memory in zip(names, memories, strict=False))
