"""Where workers run: what one worker of each model holds of a machine, and so how many there are.

A model with `device: cuda` has one worker per GPU, each of which sees its own GPU only; `device: auto` spreads one
worker over `gpus` of them (all, if not said); `mps` is one place; a CPU model has as many workers as there are cores,
and as their weights leave room in memory. Rows do not depend on any of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from karat.engine.inventory import Gpu, Inventory
from karat.kernel.errors import BadInput
from karat.kernel.registry import label
from karat.kernel.roles import (
    HoldsResources,
    ModelRecipe,
    RunsOnDevice,
    SharesWeights,
    SpreadsOverGpus,
    Weighs,
    plays,
)

OF_MEMORY = 0.8  # the share of what is free that the weights of all CPU workers may take together
_ALL = 0.0  # of `Kind.gpus`: as many as there are
_WORTH_A_WORD = 2**28  # bytes of shared weights
_TINY = 1e-6  # a fifth goes five times into one, which floats do not quite see


@dataclass(frozen=True)
class Kind:
    """What one worker holds, so that models of one kind can share workers: a core (`device` "cpu"), a share of one GPU
    or several whole ones ("cuda"), a certain GPU ("cuda:1"), or the one place that another device is ("mps")."""

    device: str
    gpus: float = 0.0

    @property
    def on_gpus(self) -> bool:
        return self.device.startswith("cuda")


@dataclass(frozen=True)
class Need:
    """What one worker of a model holds, and the bytes of its weights where they are known before it is loaded; `shared`
    where all workers of a machine hold them once, together."""

    kind: Kind
    weights: int | None = None
    shared: bool = False


@dataclass(frozen=True)
class Place:
    """Where one worker runs: its kind, the GPUs it was given, and what its environment says of them."""

    kind: Kind
    gpus: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


def need(recipe: ModelRecipe, per_device: int | None = None) -> Need:
    """What one worker of a model holds, by the fields of its recipe (`device`, `gpus`, `resources`, weights)."""
    device = recipe.device if plays(recipe, RunsOnDevice) else "cpu"
    gpus = recipe.gpus if plays(recipe, SpreadsOverGpus) else None
    declared = recipe.resources if plays(recipe, HoldsResources) else {}
    if gpus is None and declared.get("GPU"):
        gpus, device = declared["GPU"], "auto" if device == "cpu" else device
    weights = recipe.weights_bytes() if plays(recipe, Weighs) else None
    name = label(recipe)
    if gpus is not None and device not in ("cuda", "auto"):
        raise BadInput(f"{name}: gpus: {gpus:g} goes with device: auto (or cuda for a share of one); got {device}.")
    if device == "auto":
        return Need(Kind("cuda", _ALL if gpus is None else gpus), weights)
    if gpus is not None and gpus > 1:
        raise BadInput(f"{name}: device: cuda is one GPU; to spread the model over {gpus:g}, say device: auto.")
    if device == "cuda":
        return Need(Kind("cuda", 1 / per_device if per_device else gpus or 1.0), weights)
    shared = device == "cpu" and plays(recipe, SharesWeights) and recipe.shares_weights()
    return Need(Kind(device, 1.0 if device.startswith("cuda") else 0.0), weights, shared)


@dataclass(frozen=True)
class Placement:
    """How many workers there are and where: `needs` by model. `says` has a line for each kind, with the reason."""

    inventory: Inventory
    needs: Mapping[int, Need]
    workers: int
    says: tuple[str, ...]
    given: int | None = None  # workers, if somebody said how many

    def room(self) -> Room:
        return Room(self.inventory, self.given)

    def fits(self, model: int, held: Sequence[int]) -> bool:
        """Whether memory has room for one more worker with this model, beside CPU workers with the models `held`."""
        beside = [m for m in held if not self.needs[m].kind.on_gpus]
        if self.given is not None or self.needs[model].kind.on_gpus or not beside or self.inventory.memory is None:
            return True
        workers = [*beside, model]
        held = [*{m for m in workers if self.needs[m].shared}, *(m for m in workers if not self.needs[m].shared)]
        return sum(self.needs[m].weights or 0 for m in held) <= OF_MEMORY * self.inventory.memory


class Room:
    """What of an inventory is not taken yet."""

    def __init__(self, inventory: Inventory, workers: int | None = None) -> None:
        self.inventory = inventory
        self.cores = inventory.cores if workers is None else workers
        self.left = dict.fromkeys((gpu.name for gpu in inventory.gpus), 1.0)  # share of each GPU
        self.single: set[str] = set()  # devices that take one worker, taken

    def take(self, kind: Kind, resting: Sequence[str] = ()) -> Place | None:
        """A place for one more worker, or None. GPUs that are `resting` are passed over."""
        if kind.on_gpus and (chosen := self._gpus(kind, resting)):
            for name in chosen:
                self.left[name] -= min(kind.gpus, 1.0) or 1.0
            own = {} if kind.device != "cuda" else {self.inventory.variable: ",".join(chosen)}
            return Place(kind, chosen, own)
        if kind.device == "cpu" and self.cores > 0:
            self.cores -= 1
            return Place(kind)
        if kind.device != "cpu" and not kind.on_gpus and kind.device not in self.single:
            self.single.add(kind.device)
            return Place(kind)
        return None

    def give_back(self, place: Place) -> None:
        for name in place.gpus:
            self.left[name] += min(place.kind.gpus, 1.0) or 1.0
        self.single.discard(place.kind.device)
        self.cores += place.kind.device == "cpu"

    def _gpus(self, kind: Kind, resting: Sequence[str]) -> tuple[str, ...]:
        share = min(kind.gpus, 1.0) or 1.0
        able = [n for n, left in self.left.items() if left >= share - _TINY and n not in resting]
        if kind.device != "cuda":  # a certain one
            wanted = list(self.left)[_number(kind.device)]
            return (wanted,) if wanted in able else ()
        if kind.gpus == _ALL:
            return tuple(able) if len(able) == len(self.left) - len(resting) else ()
        if kind.gpus <= 1:  # the emptiest, so that shares spread before they gather
            return (max(able, key=self.left.__getitem__),) if able else ()
        return tuple(able[: round(kind.gpus)]) if len(able) >= kind.gpus else ()


def place(
    models: Mapping[int, ModelRecipe],
    inventory: Inventory,
    jobs: Mapping[int, int],
    workers: int | None = None,
    per_device: int | None = None,
) -> Placement:
    """Places for the models of a run, by their position; `jobs` counts what each has to do. `workers` and `per_device`
    override what would be chosen. What cannot be placed is refused, with what would do."""
    needs = {m: _on_this(need(recipe, per_device), inventory) for m, recipe in models.items()}
    if per_device is not None and not any(each.kind.on_gpus for each in needs.values()):
        raise BadInput(f"--per-device {per_device} is of GPUs, and no model here runs on one: say --workers instead.")
    for m, recipe in models.items():
        _refuse(label(recipe), needs[m], inventory, per_device)
    lines, total = [], 0
    for kind in dict.fromkeys(each.kind for each in needs.values()):
        members = [m for m in needs if needs[m].kind == kind]
        count = min(_most(kind, inventory, workers), sum(jobs.get(m, 0) for m in members))
        held, reason = _reason(kind, inventory, [needs[m] for m in members], workers, count)
        lines.append(f"{_workers(held)} {reason} ({_some([label(models[m]) for m in members])})")
        total += held
    return Placement(inventory, needs, total if workers is None else min(total, workers), tuple(lines), workers)


def accelerated(models: Sequence[ModelRecipe]) -> bool:
    """Whether any of them wants an accelerator: only then does anybody look for one."""
    kinds = [need(recipe).kind for recipe in models]
    return any(kind.on_gpus or kind.device == "mps" for kind in kinds)


def gigabytes(size: float) -> str:
    """
    >>> gigabytes(7.5 * 2**30), gigabytes(4 * 2**20)
    ('7.5 GB', '0.004 GB')
    """
    return f"{size / 2**30:.1f} GB" if size >= 2**29 else f"{size / 2**30:.1g} GB"


def _on_this(wanted: Need, inventory: Inventory) -> Need:
    """ "auto" is what there is: the cores, where there are no GPUs."""
    if wanted.kind == Kind("cuda", _ALL) and not inventory.gpus:
        return Need(Kind("cpu"), wanted.weights)
    return wanted


def _refuse(name: str, wanted: Need, inventory: Inventory, per_device: int | None) -> None:
    kind, count = wanted.kind, len(inventory.gpus)
    if kind.on_gpus:
        least = _number(kind.device) + 1 if kind.device != "cuda" else max(1, round(kind.gpus))
        if not count:
            raise BadInput(f"{name} wants a GPU, and this machine shows none: use device: cpu, or run it elsewhere.")
        if least > count:
            raise BadInput(
                f"{name} wants {'GPU ' + kind.device[5:] if kind.device != 'cuda' else f'{least} GPUs'}, and this "
                f"machine shows {count} ({', '.join(gpu.name for gpu in inventory.gpus)}): ask for fewer."
            )
        _refuse_weights(name, wanted, inventory.gpus, per_device)
    elif kind.device == "mps" and not inventory.mps:
        raise BadInput(f"{name}: device: mps is of Apple's machines, and this is none; use device: cpu or cuda.")
    elif wanted.weights and inventory.memory and wanted.weights > inventory.memory:  # mps works in the same memory
        raise BadInput(
            f"{name}: its weights take {gigabytes(wanted.weights)}, and {gigabytes(inventory.memory)} of memory are "
            "free: use dtype: bfloat16, a GPU (device: cuda, with quantised: 4bit where they are large), or a machine "
            "with more."
        )


def _refuse_weights(name: str, wanted: Need, gpus: Sequence[Gpu], per_device: int | None) -> None:
    kind, sizes = wanted.kind, [gpu.memory for gpu in gpus if gpu.memory is not None]
    if wanted.weights is None or not sizes:
        return
    there = sum(sizes) if kind.gpus == _ALL else max(sizes) * max(kind.gpus, _TINY)
    if wanted.weights <= there:
        return
    if kind.gpus < 1 and kind.gpus != _ALL and wanted.weights <= max(sizes):
        fits = max(sizes) // wanted.weights
        said = f"--per-device {per_device}" if per_device else f"gpus: {kind.gpus:g}"
        raise BadInput(
            f"{name}: {said} puts {round(1 / kind.gpus)} workers of {gigabytes(wanted.weights)} each on a GPU of "
            f"{gigabytes(max(sizes))}; at most {fits} fit."
        )
    several = -(-wanted.weights // max(sizes))
    spread = f"device: auto with gpus: {several}, " if several <= len(gpus) and kind.gpus != _ALL else ""
    raise BadInput(
        f"{name}: its weights take {gigabytes(wanted.weights)}, and {gigabytes(there)} of GPU memory are there for "
        f"them: use {spread}dtype: bfloat16, or quantised: 8bit or 4bit."
    )


def _most(kind: Kind, inventory: Inventory, workers: int | None) -> int:
    """Workers of a kind that the machine has places for, if it runs nothing else."""
    room, count = Room(inventory, workers), 0
    while room.take(kind) is not None and (workers is None or count < workers):
        count += 1
    return count


def _reason(
    kind: Kind, inventory: Inventory, needs: Sequence[Need], workers: int | None, count: int
) -> tuple[int, str]:
    """How many there will be at once, and why."""
    if kind.on_gpus:
        names = ", ".join(gpu.name for gpu in inventory.gpus)
        if kind.device != "cuda":
            return count, f"on GPU {kind.device[5:]} alone, as device: {kind.device} says"
        if kind.gpus == _ALL or kind.gpus > 1:
            spread = len(inventory.gpus) if kind.gpus == _ALL else round(kind.gpus)
            return count, f"over {spread} of the GPUs {names} each"
        return count, f"on the GPUs {names}, {_each(kind)}"
    if kind.device != "cpu":
        return count, f"at the {kind.device}, which is one place"
    shared = sum(each.weights or 0 for each in needs if each.shared)
    largest = max((each.weights or 0 for each in needs if not each.shared), default=0)
    once = f"; they share {gigabytes(shared)} of weights" if shared >= _WORTH_A_WORD and count > 1 else ""
    free = inventory.memory
    if workers is not None:
        beyond = free is not None and largest * count + shared > free
        held = f", whose weights take {gigabytes(largest * count + shared)} of the {gigabytes(free or 0)} free"
        return count, f"as --workers says{held if beyond else once}"
    if free is not None:
        spare = OF_MEMORY * free - shared
        fit = int(spare // largest) if largest else count * (spare >= 0)
        if fit < 1 < count:
            return 1, (
                f"on {inventory.cores} cores: {gigabytes(largest + shared)} of weights leave no room for more in the "
                f"{gigabytes(free)} free"
            )
        if fit < count:
            share = f"{OF_MEMORY:.0%} of the {gigabytes(free)} free".replace("%", " %")
            times = "once" if fit == 1 else f"{fit} times"
            return fit, f"on {inventory.cores} cores: {share} hold the {gigabytes(largest)} of weights {times}"
    return count, f"on {inventory.cores} cores, one each{once}"


def _each(kind: Kind) -> str:
    many = round(1 / kind.gpus)
    return "one each" if many == 1 else f"{many} to each"


def _workers(count: int) -> str:
    return f"{count} worker" if count == 1 else f"{count} workers"


def _number(device: str) -> int:
    text = device.partition(":")[2]
    if not text.isdecimal():
        raise BadInput(f"device: {device} names no GPU; say cuda, cuda:0, cuda:1, ..., auto, cpu or mps.")
    return int(text)


def _some(names: Sequence[str]) -> str:
    return ", ".join([*names[:3], *([f"{len(names) - 3} more"] if len(names) > 3 else [])])
