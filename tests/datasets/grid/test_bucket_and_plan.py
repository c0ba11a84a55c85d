"""Names of buckets, and requests that are refused before any work, with the sums that show why."""

from __future__ import annotations

import time

import pytest

from karat.datasets.grid import World, buckets, generate, generate_batch, parse_bucket
from karat.datasets.grid.plan import compare_counts, layouts, plan
from karat.kernel.errors import BadInput


def test_the_taxonomy_has_38_published_buckets_and_two_of_ours():
    names = buckets()
    assert len(names) == len(set(names)) == 40
    assert [name for name in names if "REL" in name] == ["D1_REL_F0_d0.3", "D1_REL_F0_d0.7"]
    assert len(buckets(published_only=True)) == 38
    assert all(parse_bucket(name).name == name for name in names)


@pytest.mark.parametrize(
    ("name", "anchors"), [("D1_A_F0_d0.3", 0), ("D3_M_F1_d0.7", 3), ("D2_CMP_F0_d0.3", 2), ("D3_CMP_F0_d0.3", 4)]
)
def test_anchors_per_bucket(name: str, anchors: int):
    assert parse_bucket(name).n_anchors == anchors


@pytest.mark.parametrize(
    "name", ["D4_M_F0_d0.3", "D2_A_F0_d0.3", "D3_SO_F0_d0.3", "D1_CMP_F1_d0.3", "M", "D1_M_F2_d0.3", "D1_M_F0_d1.5"]
)
def test_unknown_buckets_are_refused(name: str):
    with pytest.raises(BadInput, match=r"bucket"):
        parse_bucket(name)


@pytest.mark.parametrize(
    ("bucket", "options", "sums"),
    [
        ("D2_M_F0_d0.3", {"size": 4}, r"5 lines.*has 4"),
        ("D1_M_F0_d0.3", {"size": 2}, r"floor\(0\.3 x 4\) = 1|3 lines"),
        ("D3_CMP_F0_d0.1", {}, r"4 anchors \+ .* = \d+ objects.*floor\(0\.1 x 36\) = 3"),
        ("D1_A_F0_d0.01", {}, r"floor\(0\.36\) = 0 objects"),
        ("D3_M_F0_d0.15", {}, r"3 anchor\(s\) \+ 3 confusers \+ 1 target = 7 objects.*= 5"),
        ("D2_SO_F0_d0.3", {"shapes": ("circle", "square", "star")}, r"= 4 different shapes; the world has 3"),
        ("D1_REL_F0_d0.3", {"size": 4}, r"2 \+ 1 \+ 2 = 5 lines"),
        ("D1_M_F0_d0.3", {"shapes": ("circle", "blob")}, r"unknown shape 'blob'"),
        ("D1_M_F0_d0.3", {"preset": "best"}, r"unknown preset 'best'"),
        ("D1_M_F0_d0.3", {"mode": "clean"}, r"unknown mode 'clean'"),
        ("D1_REL_F0_d0.3", {"preset": "paper"}, r"was not published"),
    ],
)  # fmt: skip
def test_impossible_requests_are_refused_at_once_with_the_arithmetic(bucket: str, options: dict, sums: str):
    begin = time.monotonic()
    with pytest.raises(BadInput, match=sums):
        generate(bucket, 10_000_000, **options)
    assert time.monotonic() - begin < 5, "the refusal must not wait for the work"


def test_negative_numbers_are_refused():
    with pytest.raises(BadInput, match="count from 0"):
        generate("D1_A_F0_d0.3", -1)
    with pytest.raises(BadInput, match="count from 0"):
        generate_batch("D1_A_F0_d0.3", [-3])


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_layouts_leave_exactly_the_room_that_they_claim(depth: int):
    """Areas come from closed forms; here every cell of every layout is tested one by one."""
    from karat.datasets.grid.plan import direction_orders

    size = 5
    for targets, confusers, outside in ((0, 1, 0), (2, 1, 4), (3, 2, 5)):
        table = layouts(size, depth, targets, confusers, outside)
        for d, names in enumerate(direction_orders(depth).tolist()):
            kept = {tuple(row) for row in table.lines[table.first[d] : table.first[d] + table.number[d]].tolist()}
            for lines in _all_lines(size, depth):
                leads = [[_lead(x, y, name, at) for name, at in zip(names, lines, strict=True)]
                         for x in range(size) for y in range(size)]  # fmt: skip
                valid = sum(all(v > 0 for v in lead) for lead in leads)
                wrong = [sum(lead[k] < 0 and all(v > 0 for j, v in enumerate(lead) if j != k) for lead in leads)
                         for k in range(depth)]  # fmt: skip
                beyond = sum(all(v != 0 for v in lead) for lead in leads) - valid
                fits = valid >= max(targets, 1) and min(wrong) >= confusers and beyond >= outside
                assert fits == (lines in kept), (names, lines)


def _all_lines(size: int, depth: int) -> list[tuple[int, ...]]:
    lines: list[tuple[int, ...]] = [()]
    for _ in range(depth):
        lines = [(*line, at) for line in lines for at in range(size)]
    return lines


def _lead(x: int, y: int, name: int, at: int) -> int:
    return {0: at - x, 1: x - at, 2: at - y, 3: y - at}[name]


@pytest.mark.parametrize("name", ["D2_CMP_F0_d0.3", "D3_CMP_F0_d0.3", "D3_CMP_F0_d0.7"])
def test_comparison_counts_defeat_every_dropped_anchor(name: str):
    bucket = parse_bucket(name)
    sums, each = plan(bucket, World()), bucket.depth - 1
    assert any(one > two for one, two in sums.pairs)
    assert any(one <= two for one, two in sums.pairs)
    for one, two in sums.pairs:
        assert one + two + bucket.n_anchors <= sums.objects
        for yes in (True, False):
            options = compare_counts(each, one, two, yes, sums.most)
            assert options
            for n1, n2, c1, c2 in options:
                assert (n1 > n2) == yes
                assert min(c1, c2) >= 1
                assert n1 + each * c1 <= one
                assert n2 + each * c2 <= two
                assert (n1 <= n2 + c2) if yes else (n1 + c1 > n2)
