"""Which visual token belongs to which cell of the image: strips of it are changed, and tokens that move are noted.

Every strip (all of one height, then all of one width) is changed by itself, in batches, with the attention of the tower
silenced, so that tokens mix nothing. A token's rows are the strips that move it, and so are its columns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from karat.kernel.errors import BadInput
from karat.models.families.family import Size, View

Floats = npt.NDArray[np.float64]
_STILL = 1e-4  # of the largest movement: a token that moves less stands for no place
_COARSER = 1.6  # areas that differ by more are of another grid
_TOUCHED = 0.05  # of a token's largest movement
_UNEVEN = 0.2  # of a cell: how far a row of tokens may stand from where an even grid has it
ROWS_AT_ONCE = 32


@dataclass(frozen=True, eq=False)
class Movement:
    """(tokens, strips) how far each token moved when each strip was changed, down and across; `passes` were batched."""

    down: Floats
    across: Floats
    passes: int


def movement(pixels: Tensor, strips: int, tokens: Callable[[Tensor], Tensor]) -> Movement:
    """`tokens` gives (n, tokens, width) of pixels (n, 3, H, W); `pixels` (1, 3, H, W) is one noisy image."""
    height, width = pixels.shape[-2:]
    down, across = min(strips, height), min(strips, width)
    flipped = pixels.amax() + pixels.amin() - pixels
    base = tokens(pixels)[0]
    moved: list[Tensor] = []
    passes = 1
    # The first is the image as it is, beside others.
    numbers = [(True, -1)] + [(True, k) for k in range(down)] + [(False, k) for k in range(across)]
    for start in range(0, len(numbers), ROWS_AT_ONCE):
        some = numbers[start : start + ROWS_AT_ONCE]
        rows = pixels.repeat(len(some), 1, 1, 1)
        for row, (vertical, k) in zip(rows, some, strict=True):
            if k < 0:
                continue
            size, count = (height, down) if vertical else (width, across)
            part = slice(k * size // count, (k + 1) * size // count)
            if vertical:
                row[:, part] = flipped[0, :, part]
            else:
                row[:, :, part] = flipped[0, :, :, part]
        moved.append((tokens(rows) - base).double().norm(dim=-1))
        passes += 1
    unaltered, *altered = torch.cat(moved).cpu().unbind()
    table = torch.stack(altered, 1).numpy()  # (tokens, strips)
    if float(unaltered.max()) > _STILL * max(float(table.max()), 1e-30):
        raise BadInput("probe 'which cell': tokens of an image move when other images are run beside it.")
    return Movement(table[:, :down], table[:, down:], passes)


def view_of(moved: Movement, what: str = "visual token") -> View:
    """The grid that the finest tokens make; tokens that do not move, or of a coarser grid, have no cell.

    An error says what was seen where they make none.
    """
    strength = moved.down.sum(1) + moved.across.sum(1)
    count = len(strength)
    alive = np.flatnonzero(strength > _STILL * max(strength.max(), 1e-30))
    if not len(alive):
        raise BadInput(f"probe 'which cell': no {what} of {count} moves when strips of the image change.")
    area = _extent(moved.down[alive]) * _extent(moved.across[alive])
    finest = alive[_finest(area)]
    strips = moved.down.shape[1], moved.across.shape[1]
    for members in _candidates(finest, alive):
        for power in (2, 6):  # where convolutions reach far: by what moves a token most
            ys, xs = (_centre(rows[members], power) for rows in (moved.down, moved.across))
            for rows, columns in _factors(len(members)):
                placed = _placed(ys, xs, strips, rows, columns)
                if placed is not None:
                    return View((rows, columns), tuple(int(members[k]) for k in placed), count)
    spread = f"a {what} reaches over {np.median(_extent(moved.down[alive])) / moved.down.shape[1]:.0%} of the height"
    raise BadInput(
        f"probe 'which cell': {len(finest)} of {count} {what}s move, and make no grid of rows and columns; {spread}. "
        "Tokens that gather from all over the image (a resampler, a quantiser) have no cell."
    )


def _extent(rows: Floats) -> Floats:
    """The number of strips that move each token at all."""
    return np.asarray((rows > _TOUCHED * rows.max(1, keepdims=True)).sum(1), dtype=np.float64)


def _finest(area: Floats) -> npt.NDArray[np.intp]:
    """Tokens of the smallest area, up to a gap in areas."""
    order = np.argsort(area, kind="stable")
    steps = area[order][1:] / np.maximum(area[order][:-1], 1e-30)
    jumps = np.flatnonzero((steps > _COARSER) & (np.arange(1, len(area)) >= 4))
    last = jumps[0] + 1 if len(jumps) else len(area)
    return np.sort(order[:last])


def _candidates(finest: npt.NDArray[np.intp], alive: npt.NDArray[np.intp]) -> list[npt.NDArray[np.intp]]:
    """The finest tokens; or all that move, without a picture of the whole that is shown before or after them."""
    made = [finest]
    for share in range(2, 14):
        if len(alive) % share == 0 and len(alive) // share >= 4:
            part = len(alive) // share
            made += [alive[part:], alive[:-part]]
    return made


def _centre(rows: Floats, power: int) -> Floats:
    weight = (rows / np.maximum(rows.max(1, keepdims=True), 1e-30)) ** power
    return np.asarray((weight * np.arange(rows.shape[1])).sum(1) / np.maximum(weight.sum(1), 1e-30))


def _factors(count: int) -> list[Size]:
    """Grids of so many cells, the squarest first."""
    found = [(r, count // r) for r in range(2, count // 2 + 1) if count % r == 0]
    return sorted(found, key=lambda grid: abs(np.log(grid[0] / grid[1])))


def _placed(ys: Floats, xs: Floats, strips: Size, rows: int, columns: int) -> list[int] | None:
    """Row-major numbers of the tokens, if they make this grid: each in one row and one column, with gaps between."""
    row, column = _grouped(ys, rows, strips[0]), _grouped(xs, columns, strips[1])
    if row is None or column is None:
        return None
    cells = row * columns + column
    return None if len(np.unique(cells)) != len(cells) else np.argsort(cells).tolist()


def _grouped(values: Floats, groups: int, strips: int) -> npt.NDArray[np.intp] | None:
    """Which of `groups` equal groups each value is in, if the gaps between groups exceed the spread inside them."""
    order = np.argsort(values, kind="stable")
    table = values[order].reshape(groups, -1)
    between = (table[1:].min(1) - table[:-1].max(1)).min()
    if between <= 0.25 * (table.max(1) - table.min(1)).max():
        return None
    centres = table.mean(1)
    step, first = np.polyfit(np.arange(groups), centres, 1)
    if np.abs(centres - first - step * np.arange(groups)).max() > _UNEVEN * step:
        return None
    middle = first + step * (groups - 1) / 2  # the grid must lie over all of the image
    if abs(middle - (strips - 1) / 2) > 0.5 * step or step * groups < 0.5 * strips:
        return None
    numbers = np.empty(len(values), dtype=np.intp)
    numbers[order] = np.arange(len(values)) // table.shape[1]
    return numbers
