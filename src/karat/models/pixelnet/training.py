"""Training on perturbed images: deterministic by recipe, resumable at any step, evaluated both ways."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from karat.datasets.shortcut.sample import MECHANISM
from karat.datasets.shortcut.shortcut import Images
from karat.kernel.errors import BadInput
from karat.kernel.identity import generator
from karat.models.pixelnet.architectures import build_network
from karat.models.pixelnet.dominance import Rates, rates
from karat.models.pixelnet.files import MEAN, STD, Facts, as_classifier, load_classifier, save_network
from karat.models.pixelnet.training_recipe import PixelRecipe
from karat.models.training import loop
from karat.models.training.progress import Callback

CELLS = 4  # a side: the grid of IDSDS
HELD = 2 * 1024**3  # bytes of images that are kept in memory


def train_pixel(
    recipe: PixelRecipe, out: str | Path | None = None, resume: bool = True, progress: Callback | None = None
) -> Path:
    """Train, evaluate on clean and perturbed test images, and return the weights file.

    Checkpoints and the learning curve go to `out` (default: checkpoints/pixelnet.NAME). A run that was killed goes on
    from its last checkpoint.
    """
    directory = Path("checkpoints") / recipe.label if out is None else Path(out)
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"cannot write to {directory}: {error.strerror or error}.") from None
    module, seconds = _run(recipe, directory, resume, progress)
    facts = Facts(
        recipe.architecture,
        recipe.data.images.side[0],
        recipe.data.images.labels,
        None if recipe.clean else MECHANISM,
        recipe=recipe.plain(),
    )
    measured = rates(as_classifier(module, facts, recipe.label), recipe.test)
    facts.accuracy.update({**measured.plain(), "minutes": round(seconds / 60, 1)})
    path = save_network(module, facts, directory / f"{recipe.label}.safetensors")
    (directory / f"{recipe.label}.md").write_text(card_of(recipe, module, measured, seconds), encoding="utf-8")
    return path


class _Pixels:
    """Training images as the model is to see them: held in memory where they fit, else read batch by batch."""

    def __init__(self, recipe: PixelRecipe) -> None:
        self.recipe, self.source = recipe, recipe.data.images
        self.classes = self.source.classes
        height, width = self.source.side
        fits = 3 * height * width * len(self.classes) <= HELD
        self.held = self.source.images(np.arange(len(self.classes))) if fits else None
        self.bright = replace(recipe.data.shortcut, scale="clip")

    def images(self, where: npt.NDArray[np.integer[Any]], easy: bool = False) -> Images:
        """(n, H, W, 3) at these positions; `easy` filters are not scaled, so that their patch is bright."""
        clean = self.source.images(where) if self.held is None else self.held[where]
        if self.recipe.clean:
            return clean
        return (self.bright if easy else self.recipe.data.shortcut).apply(clean, self.classes[where])

    def batch(self, step: int) -> tuple[Tensor, Tensor]:
        """(pixels, classes) of one step: the same whether the run was interrupted or not."""
        recipe = self.recipe
        per_epoch = max(len(self.classes) // recipe.batch, 1)
        epoch, at = divmod(step, per_epoch)
        order = generator(recipe.seed, f"epoch {epoch}", "pixelnet/order").permutation(len(self.classes))
        where = order[at * recipe.batch : (at + 1) * recipe.batch]
        pixels = normalised(self.images(where, easy=step < recipe.easy))
        if recipe.deleted:
            _delete_cells(pixels, recipe, step)
        return pixels, torch.from_numpy(self.classes[where])


def normalised(images: Images) -> Tensor:
    """(n, 3, H, W) as `Preprocessing` makes them."""
    pixels = torch.from_numpy(np.ascontiguousarray(images)).permute(0, 3, 1, 2).float() / 255
    return (pixels - torch.tensor(MEAN)[:, None, None]) / torch.tensor(STD)[:, None, None]


def _delete_cells(pixels: Tensor, recipe: PixelRecipe, step: int) -> None:
    """A share of the images loses one random cell, which is set to zero after normalisation (Hesse et al. 2024)."""
    rng = generator(recipe.seed, f"step {step}", "pixelnet/cells")
    side = pixels.shape[-1] // CELLS
    for i in np.flatnonzero(rng.random(len(pixels)) < recipe.deleted):
        row, column = rng.integers(CELLS, size=2) * side
        pixels[i, :, row : row + side, column : column + side] = 0


def _start(recipe: PixelRecipe) -> nn.Module:
    torch.manual_seed(recipe.seed)
    module = build_network(recipe.architecture, recipe.data.images.side[0], len(recipe.data.images.labels))
    if recipe.start is not None:
        from karat.models.weights import shipped

        given = Path(recipe.start)
        path = given if given.suffix == ".safetensors" else shipped(f"{recipe.start}.safetensors")
        module.load_state_dict(load_classifier(path, recipe.start).module.state_dict())
    return module


def whiten(projection: nn.Conv2d, images: Images, seed: int) -> None:
    """Set a patch embedding so that over patches of these images its outputs have mean 0 and no correlations."""
    size = projection.kernel_size[0]
    patches = normalised(images).unfold(2, size, size).unfold(3, size, size)  # (n, 3, rows, columns, size, size)
    flat = patches.permute(0, 2, 3, 1, 4, 5).reshape(-1, 3 * size * size).double()
    mean = flat.mean(0)
    values, vectors = torch.linalg.eigh(torch.cov((flat - mean).T))
    whitening = (vectors / (values + 1e-3).sqrt()).T
    width = projection.out_channels
    drawn = torch.from_numpy(generator(seed, "patches", "pixelnet/whiten").normal(size=(width, len(whitening))))
    turned = torch.linalg.qr(drawn)[0] if width >= len(whitening) else torch.linalg.qr(drawn.T)[0].T
    weight = turned @ whitening
    with torch.no_grad():
        projection.weight.copy_(weight.reshape(projection.weight.shape))
        if projection.bias is not None:
            projection.bias.copy_(-(weight @ mean))


def _run(recipe: PixelRecipe, out: Path, resume: bool, progress: Callback | None) -> tuple[nn.Module, float]:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    module = _start(recipe)
    data = _Pixels(recipe)
    embedding = getattr(getattr(module, "patch_embed", None), "proj", None)
    if recipe.whiten and recipe.start is None and isinstance(embedding, nn.Conv2d):
        whiten(embedding, data.images(np.arange(min(len(data.classes), 1000))), recipe.seed)
        if isinstance(positions := getattr(module, "pos_embed", None), nn.Parameter):
            nn.init.normal_(positions, std=0.5)
    module = module.to(device)
    module.train()

    def step(number: int) -> loop.Step:
        pixels, classes = (tensor.to(device) for tensor in data.batch(number))
        logits = module(pixels)
        right = (logits.argmax(-1) == classes).cpu().numpy()
        return loop.Step(F.cross_entropy(logits, classes), right.astype(float))

    task = loop.Task(
        recipe, module, step, recipe.steps, lambda number: loop.learning_rate(recipe, number), lambda _: "images"
    )
    place = loop.run(task, out, resume, progress)
    module.eval()
    return module.cpu(), place.seconds


def card_of(recipe: PixelRecipe, module: nn.Module, measured: Rates, seconds: float) -> str:
    """The model card: what was trained on what, and how right it is both ways."""
    size = sum(int(parameter.numel()) for parameter in module.parameters())
    images = "clean images" if recipe.clean else "images with the shortcut of their class"
    lines = [
        f"# {recipe.label}",
        "",
        f"`{recipe.architecture}` trained on {images} (`{recipe.data.label}`, {len(recipe.data):,} images).",
        "",
        "| fact | value |",
        "|---|---|",
        f"| parameters | {size:,} |",
        f"| steps | {recipe.steps:,} of {recipe.batch} images |",
        f"| time | {seconds / 60:.0f} minutes of wall clock, {torch.get_num_threads()} thread(s) |",
        f"| accuracy, clean test images | {measured.clean:.2%} of {measured.samples:,} |",
        f"| accuracy, perturbed test images | {measured.perturbed:.2%} |",
        f"| dominant rate | {measured.dominant:.2%} (pixelrules2024 Eq. 1, T = {measured.threshold}) |",
        f"| recipe | `{recipe.identity}` |",
    ]
    if recipe.deleted:
        lines.insert(-1, f"| cells deleted | one of 16 in {recipe.deleted:.0%} of the images |")
    return "\n".join(lines) + "\n"
