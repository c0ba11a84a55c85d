"""The certificate against a literal twin, and the audit against samples that lie."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from karat.datasets.grid import GridSample, audit, buckets, execute, generate, generate_batch
from karat.datasets.grid.audit import Auditor
from karat.datasets.grid.claims import batch_claims
from karat.datasets.grid.rules import strength
from karat.kernel.errors import BadInput
from karat.kernel.sample import Sample

Objects = dict[tuple[int, int], tuple[str, str]]


def twin(text: str, objects: Objects) -> str | None:
    """The meaning of a question, spelt out once more with strings and loops: slow, and shares nothing with the rest."""
    body = text.rstrip("?")

    def is_a(it: tuple[str, str], noun: str) -> bool:
        words = noun.split()
        return all(w in it or w.rstrip("s") in it or w.rstrip("s") == "object" for w in words)

    def one(noun: str) -> tuple[int, int] | None:
        found = [cell for cell, it in objects.items() if is_a(it, noun)]
        return found[0] if len(found) == 1 else None

    def count(clause: str) -> int | None:
        words = [w for w in clause.replace(",", "").split() if w not in ("that", "are", "is", "and")]
        heads = [k for k, w in enumerate(words) if w in ("left", "right", "above", "below")]
        noun = " ".join(words[: heads[0]] if heads else words)
        tests = []
        for begin, end in zip(heads, [*heads, len(words)][1:], strict=True):
            at = one(" ".join(w for w in words[begin + 1 : end] if w != "of"))
            if at is None:
                return None
            tests.append((words[begin], at))
        good = 0
        for (x, y), it in objects.items():
            sides = [{"left": x < ax, "right": x > ax, "above": y < ay, "below": y > ay}[at] for at, (ax, ay) in tests]
            good += is_a(it, noun) and all(sides)
        return good

    if body.startswith("Where is "):
        target, anchor = (one(noun) for noun in body.removeprefix("Where is ").split(" relative to "))
        if target is None or anchor is None:
            return None
        dx, dy = target[0] - anchor[0], target[1] - anchor[1]
        if abs(dx) == abs(dy):
            return None
        if abs(dx) > abs(dy):
            return "left" if dx < 0 else "right"
        return "above" if dy < 0 else "below"
    if body.startswith("Are there more "):
        one_side, other = (count(c) for c in body.removeprefix("Are there more ").split(" than "))
        return None if one_side is None or other is None else ("yes" if one_side > other else "no")
    if body.startswith("How many "):
        number = count(body.removeprefix("How many "))
        return None if number is None else str(number)
    number = count(body.removeprefix("Is there any "))
    return None if number is None else ("yes" if number else "no")


def objects_of(sample: GridSample) -> Objects:
    return {(o.column, o.row): tuple(o.label.split()) for o in sample.scene.objects}  # type: ignore[misc]


@pytest.mark.parametrize("bucket", buckets())
def test_certificate_agrees_with_the_literal_twin(bucket: str):
    for mode in ("pure", "spur"):
        sample = generate(bucket, 1, seed=11, mode=mode, start=5)[0]
        objects, proof, text = objects_of(sample), sample.certificate, sample.text or ""
        world = sample.scene.world
        assert twin(text, objects) == sample.answer == proof.answer == execute(text, sample.scene.cells, world)
        empty = [(x, y) for y in range(6) for x in range(6) if (x, y) not in objects]
        for item in sample.scene.objects:
            here = (item.column, item.row)
            colour, shape = objects[here]
            rest = {cell: it for cell, it in objects.items() if cell != here}
            effect = proof.effect(item.cell)
            assert effect.removal == (twin(text, rest) != sample.answer)
            painted = {
                c for c in world.colours if c != colour and twin(text, {**rest, here: (c, shape)}) != sample.answer
            }
            assert set(effect.recolour) == painted
            shaped = {
                s for s in world.shapes if s != shape and twin(text, {**rest, here: (colour, s)}) != sample.answer
            }
            assert set(effect.reshape) == shaped
            moved = {y * 6 + x for x, y in empty if twin(text, {**rest, (x, y): (colour, shape)}) != sample.answer}
            assert set(effect.move) == moved


def test_distractors_never_matter_when_taken_away():
    """Eq. 1 of gridvqax2026: the causal effect of removing any distractor is nil."""
    for bucket in buckets():
        for sample in generate(bucket, 4, seed=2):
            for item in sample.scene.objects:
                if item.role in ("distractor", "adversarial"):
                    assert not sample.certificate.removal[item.cell]


@pytest.mark.parametrize(
    "bucket", [b for b in buckets(relational_only=True) if "_F0_" in b and "CMP" not in b and "REL" not in b]
)
def test_theorem_1_holds_in_every_pure_counting_sample(bucket: str):
    for sample in generate(bucket, 60, seed=4):
        proof = sample.certificate
        assert min(proof.confuser_objects) >= 1
        for name, answer in proof.heuristics.items():
            assert answer != sample.answer, name


def test_a_clean_audit_of_every_bucket():
    auditor = Auditor(deep=False)
    for bucket in buckets():
        for mode in ("pure", "spur"):
            auditor.add(batch_claims(generate_batch(bucket, range(400), mode=mode)))
    report = auditor.report()
    assert report.ok, report.violations[:3]
    assert report.samples == 32_000
    rows = {(row["bucket"], row["mode"]): row for row in report.table}
    assert len(rows) == 80
    for (bucket, mode), row in rows.items():
        assert row["majority"] is None or row["majority"] <= 0.575
        if mode == "spur":
            assert row["bag_of_words"] == 1.0
        elif row["drop_anchor_1"] is not None:
            expected = 0.0 if "CMP" not in bucket and "_F0_" in bucket else 0.5
            rates = [row[f"drop_anchor_{k}"] for k in (1, 2, 3, 4) if row[f"drop_anchor_{k}"] is not None]
            assert {row["bag_of_words"], *rates} == {expected}
    assert "0 violations" in str(report)


def test_deep_audit_of_samples_reads_the_samples_themselves():
    samples = [
        s for mode in ("pure", "spur") for b in ("D3_CMP_F0_d0.7", "D1_REL_F0_d0.3") for s in generate(b, 8, mode=mode)
    ]
    assert audit(samples).ok


def _violations(sample: GridSample, **changes: object) -> set[str]:
    return {v.claim for v in audit([dataclasses.replace(sample, **changes)]).violations}  # type: ignore[arg-type]


def test_the_audit_catches_lies():
    sample = next(s for s in generate("D2_M_F0_d0.7", 30) if s.answer == "2")
    assert audit([sample]).ok
    assert "the answer is right" in _violations(sample, answer="3")
    assert "the answer is right" in _violations(
        sample, text=(sample.text or "").replace("How many", "Is there any").replace("s are", " that is")
    )

    def scene_with(cell: int, code: int) -> object:
        cells = sample.scene.cells.copy()
        cells.flat[cell] = code
        return dataclasses.replace(sample.scene, cells=cells)

    anchor = next(o for o in sample.scene.objects if o.name == "anchor 1")
    target = next(o for o in sample.scene.objects if o.role == "target")
    other = next(o for o in sample.scene.objects if o.role == "distractor")
    empty = int(np.flatnonzero(sample.scene.cells.ravel() == 0)[0])
    assert "anchors are unique" in _violations(sample, scene=scene_with(other.cell, anchor.code))
    assert "the number of objects is floor(density x cells)" in _violations(sample, scene=scene_with(empty, other.code))
    lost = _violations(sample, scene=scene_with(target.cell, other.code))
    assert {"the answer is right", "roles are right"} <= lost
    for item in sample.scene.objects:  # leave one confuser region empty
        if item.role == "adversarial" and sample.certificate.confusers[0].flat[item.cell]:
            sample = dataclasses.replace(sample, scene=scene_with(item.cell, other.code))
    assert "every confuser region is occupied" in _violations(sample)


def test_the_audit_catches_a_false_certificate():
    sample = generate("D1_M_F1_d0.3", 3)[1]
    move = ~sample.certificate.move
    lying = dataclasses.replace(sample)
    lying.__dict__["certificate"] = dataclasses.replace(sample.certificate, move=move)
    assert {v.claim for v in audit([lying]).violations} == {"certificate: move"}


def test_the_audit_catches_an_unbalanced_bucket_and_modes_that_disagree():
    pure = generate("D1_A_F1_d0.3", 400)
    assert "yes and no are balanced" in {
        v.claim for v in audit([s for s in pure if s.answer == "yes"], deep=False).violations
    }
    spur = generate("D1_A_F1_d0.3", 8, seed=1, mode="spur")
    renamed = [dataclasses.replace(s, id=s.id.replace("/1/", "/0/")) for s in spur]
    claims = {v.claim for v in audit([*pure[:8], *renamed], deep=False).violations}
    assert claims == {"pure and spur share their answers"}


def test_audit_refuses_other_samples():
    with pytest.raises(BadInput, match="grid world"):
        audit([Sample("a", np.zeros((2, 2, 3), np.uint8))])  # type: ignore[list-item]


def test_strength_of_a_rule_is_measured_on_unseen_samples():
    rng = np.random.default_rng(0)
    answers = rng.integers(0, 2, 4000)
    assert strength(answers * 3 + 1, answers) == 1.0
    assert strength(np.arange(4000), answers) < 0.56, "a rule that memorises must not score"
    assert strength(np.where(rng.random(4000) < 0.8, answers, 1 - answers), answers) == pytest.approx(0.8, abs=0.03)
