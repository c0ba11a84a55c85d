"""Wording, word for word, and the spans of its phrases."""

from __future__ import annotations

import pytest

from karat.datasets.grid import World, buckets, generate, generate_batch, parse_bucket
from karat.datasets.grid.executor import parse
from karat.datasets.grid.language import noun_text, word
from karat.kernel.errors import BadInput

RC, BS, GT, YP = (0, 0), (2, 1), (1, 2), (3, 3)  # red circle, blue square, green triangle, yellow pentagon
RED, BLUE, CIRCLE, PENTAGON = (0, -1), (2, -1), (-1, 0), (-1, 3)

PUBLISHED = [
    ("D1_A_F0_d0.3", [RC], [], [], "How many red circles?"),
    ("D1_A_F1_d0.3", [RC], [], [], "Is there any red circle?"),
    ("D1_SO_F1_d0.3", [CIRCLE], [PENTAGON], [0], "Is there any circle that is left of pentagon?"),
    ("D1_CO_F1_d0.3", [RED], [BLUE], [0], "Is there any red object that is left of blue object?"),
    ("D1_CO_F0_d0.3", [RED], [BLUE], [3], "How many red objects are below blue object?"),
    ("D1_M_F1_d0.3", [RC], [BS], [0], "Is there any red circle that is left of blue square?"),
    ("D2_M_F0_d0.3", [RC], [BS, GT], [1, 2], "How many red circles are right of blue square and above green triangle?"),
    ("D3_M_F0_d0.3", [RC], [BS, GT, YP], [0, 2, 3],
     "How many red circles that are left of blue square, above green triangle, and below yellow pentagon?"),
    ("D3_M_F1_d0.3", [RC], [BS, GT, YP], [0, 2, 3],
     "Is there any red circle that is left of blue square, above green triangle, and below yellow pentagon?"),
    ("D1_CMP_F0_d0.3", [RC, YP], [], [], "Are there more red circles than yellow pentagons?"),
    ("D2_CMP_F0_d0.3", [RC, YP], [BS, GT], [0, 2],
     "Are there more red circles left of blue square than yellow pentagons above green triangle?"),
    ("D3_CMP_F0_d0.3", [RC, YP], [BS, GT, (0, 1), (0, 2)], [0, 2, 1, 3],
     "Are there more red circles left of blue square and above green triangle than yellow pentagons right of red "
     "square and below red triangle?"),
    ("D1_REL_F0_d0.3", [RC], [BS], [0], "Where is red circle relative to blue square?"),
]  # fmt: skip


@pytest.mark.parametrize(("bucket", "targets", "anchors", "directions", "text"), PUBLISHED)
def test_wording(bucket: str, targets: list, anchors: list, directions: list, text: str):
    wording = word(parse_bucket(bucket), World(), targets, anchors, directions)
    assert wording.text == text
    roles = [part.role for part in wording.parts]
    assert roles.count("anchor") == roles.count("relation") == len(anchors)
    assert roles.count("target") == len(targets)
    for part in wording.parts:
        said = text[slice(*part.span)]
        if part.role == "anchor":
            assert said == noun_text(World(), anchors[part.number])
        elif part.role == "target":
            assert said == noun_text(World(), targets[part.number], plural=" more " in text or text.startswith("How"))
        elif part.role == "header":
            assert text.startswith(said)
        elif part.role == "relation" and "REL" not in bucket:
            assert said == ("left of", "right of", "above", "below")[directions[part.number]]


def test_plurals_that_need_es():
    world = World(shapes=("cross", "star"))
    assert noun_text(world, (-1, 0), plural=True) == "crosses"
    assert parse("How many red crosses?", world).clauses[0].noun == ("red", "cross")


@pytest.mark.parametrize("bucket", buckets())
def test_the_parser_reads_back_what_was_written(bucket: str):
    batch = generate_batch(bucket, range(30))
    world = batch.world

    def name(noun: list[int]) -> tuple[str | None, str | None]:
        return (world.colours[noun[0]] if noun[0] >= 0 else None, world.shapes[noun[1]] if noun[1] >= 0 else None)

    for row, text in enumerate(batch.questions):
        query = parse(text, world)
        assert [clause.noun for clause in query.clauses] == [name(n) for n in batch.target_nouns[row].tolist()]
        anchors = [noun for clause in query.clauses for _, noun in clause.constraints]
        assert anchors == [name(n) for n in batch.anchor_nouns[row].tolist()]


@pytest.mark.parametrize("text", ["How many red circles", "How many red blobs?", "Why?", "Where is red circle?"])
def test_what_cannot_be_read_is_refused(text: str):
    with pytest.raises(BadInput):
        parse(text, World())


def test_phrases_and_truth_of_a_sample():
    sample = next(s for s in generate("D2_M_F0_d0.7", 40) if s.certificate.counts[0] >= 2)
    text = sample.text or ""
    words = [text[a:b] for a, b in sample.words]
    reasons, matches = sample.truth("reasons"), sample.truth("matches_words")
    assert reasons is not None
    assert matches is not None
    used = [w for w, keep in zip(words, reasons.words or (), strict=True) if keep]
    assert [w for w in words if w not in ("are", "and", "?")] == used
    assert [w for w, keep in zip(words, matches.words or (), strict=True) if keep] == words[:4]
    cells = 64 * 64
    n, like = sample.certificate.counts[0], int(sample.certificate.heuristics["bag_of_words"])
    assert reasons.visual is not None
    assert matches.visual is not None
    assert reasons.visual.sum() == (n + 2) * cells
    assert matches.visual.sum() == like * cells
    names = {region.name: region for region in sample.regions}
    for phrase in sample.phrases:
        said = text[slice(*phrase.span)]
        for name in phrase.regions:
            if phrase.role in ("target", "anchor"):
                assert said.removesuffix("s") == names[name].label
    assert sum(phrase.role == "target" and len(phrase.regions) == n for phrase in sample.phrases) == 1


def test_masks_from_cells_equal_masks_from_boxes():
    from karat.kernel.sample import Sample

    for bucket in ("D3_CMP_F0_d0.7", "D1_REL_F0_d0.3"):
        sample = generate(bucket, 3, cell=17)[2]
        for roles in (("target",), ("anchor",), ("adversarial", "distractor"), ("target", "anchor")):
            assert (sample.mask(*roles) == Sample.mask(sample, *roles)).all()
