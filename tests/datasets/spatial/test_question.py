from __future__ import annotations

import numpy as np
import pytest

from karat.datasets.spatial.question import OPPOSITE, RELATIONS, angle, centre, four_way, relation_between, zone
from karat.kernel.errors import BadInput
from karat.kernel.sample import Region, Sample


def test_the_prompt_is_the_published_one_word_for_word() -> None:
    text, phrases = four_way("cup", "hot dog")
    assert text == (
        "In this image, where is the cup relative to the hot dog? Choose one option: 1) to the left, 2) to the right, "
        "3) above, 4) below. Answer with just the number."
    )
    assert [(phrase.role, text[slice(*phrase.span)]) for phrase in phrases] == [
        ("header", "where is"), ("target", "cup"), ("relation", "relative to"), ("anchor", "hot dog"),
    ]  # fmt: skip


def test_names_that_hold_each_other_keep_their_places() -> None:
    text, phrases = four_way("dog", "hot dog")
    assert [text[slice(*phrase.span)] for phrase in phrases][1::2] == ["dog", "hot dog"]
    assert phrases[1].span[1] < phrases[3].span[0]


@pytest.mark.parametrize(
    ("target", "relation", "degrees"),
    [((0, 5), "left", 180), ((9, 5), "right", 0), ((5, 0), "above", 90), ((5, 9), "below", 270)],
)
def test_directions_as_the_eye_sees_them(target: tuple[float, float], relation: str, degrees: float) -> None:
    assert relation_between((5, 5), target) == relation
    assert angle((5, 5), target) == pytest.approx(degrees)
    assert relation_between(target, (5, 5)) == OPPOSITE[relation]
    assert set(OPPOSITE) == set(RELATIONS)


def test_centre_and_zone() -> None:
    sample = Sample("s", np.zeros((30, 60, 3), np.uint8), regions=(Region("a", "anchor", ((40, 0, 10, 6),)),))
    assert centre(sample, "anchor") == (45.0, 3.0)
    assert zone((45.0, 3.0), sample.size) == "top right"
    assert zone((60.0, 30.0), sample.size) == "bottom right"
    with pytest.raises(BadInput, match="no region with the role 'target'"):
        centre(sample, "target")
