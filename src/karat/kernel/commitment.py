"""Commitments: a sealed test is announced by a hash of its spec, a secret seed and a random text, and opened later.

The spec says `seed: sealed` where a dataset takes the secret seed, so that fresh samples are generated from it. Nobody
can find the seed from the hash, and nobody can claim another seed afterwards.
"""

from __future__ import annotations

import copy
import hashlib
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from karat.kernel.errors import BadInput

SEALED = "sealed"  # in place of a dataset's seed
_LARGEST = 2**31 - 1


@dataclass(frozen=True)
class Commitment:
    """What is announced: `hash` binds spec, seed and nonce."""

    hash: str
    spec: Mapping[str, Any]


@dataclass(frozen=True)
class Opening:
    """What is kept secret until the end."""

    seed: int
    nonce: str


def seal(spec: Mapping[str, Any], seed: int | None = None) -> tuple[Commitment, Opening]:
    """Commit to a spec whose datasets say `seed: sealed`.

    Args:
        spec: plain data of a spec.
        seed: the secret seed; drawn at random if not given.

    Returns:
        The commitment to announce, and the opening to keep.

    Example:
        >>> spec = {"protocol": "grid", "datasets": [{"name": "grid", "seed": "sealed"}]}
        >>> commitment, opening = seal(spec, seed=7)
        >>> opened(commitment, opening)["datasets"][0]["seed"]
        7
    """
    if not any(data.get("seed") == SEALED for data in spec.get("datasets", ())):
        raise BadInput(
            "no dataset of the spec says `seed: sealed`, so a secret seed would change nothing. Write for example "
            "`datasets: [{name: grid, seed: sealed}]`."
        )
    opening = Opening(secrets.randbelow(_LARGEST) if seed is None else seed, secrets.token_hex(16))
    return Commitment(_hash(spec, opening), copy.deepcopy(dict(spec))), opening


def opened(commitment: Commitment, opening: Opening) -> dict[str, Any]:
    """The spec with the secret seed in its place; refuses an opening that is not the one committed to."""
    if _hash(commitment.spec, opening) != commitment.hash:
        raise BadInput(
            "this opening does not belong to the commitment: its hash is "
            f"{_hash(commitment.spec, opening)[:16]}, announced was {commitment.hash[:16]}. Spec, seed or nonce differ."
        )
    spec = copy.deepcopy(dict(commitment.spec))
    spec["datasets"] = [
        {**data, "seed": opening.seed} if data.get("seed") == SEALED else data for data in spec["datasets"]
    ]
    return spec


def _hash(spec: Mapping[str, Any], opening: Opening) -> str:
    sealed = {"spec": spec, "seed": opening.seed, "nonce": opening.nonce}
    return hashlib.sha256(json.dumps(sealed, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
