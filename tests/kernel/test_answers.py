"""Reading what models say (fsyn2026 A.1)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from karat.kernel.answers import Reading, read_answer

LETTERS = ("A", "B", "C", "D")


@pytest.mark.parametrize(
    ("said", "answer", "target"),
    [
        ("(B)", "B", "(B"),
        ("B", "B", "B"),
        (" B. 3 scarfs", "B", "B"),
        ("The answer is (C) because of the mat.", "C", "The answer is (C"),
        ("Answer: D", "D", "Answer: D"),
        ("A dog is on the mat, so (B).", "B", "A dog is on the mat, so (B"),
        ("Option C is right", None, None),  # a letter before a word may be an article
        ("A dog is on the mat.", None, None),
        ("It must be D", "D", "It must be D"),
        ("E", None, None),
        ("", None, None),
    ],
)
def test_letters(said: str, answer: str | None, target: str | None) -> None:
    expected = None if answer is None or target is None else Reading(answer, target)
    assert read_answer(said, LETTERS) == expected


@pytest.mark.parametrize(
    ("said", "answer", "target"),
    [
        ("Yes", "yes", "Yes"),
        ("No, there is no dog.", "no", "No"),
        ("there is, yes", "yes", "there is, yes"),
        ("Nothing is known", None, None),
        ("YES.", "yes", "YES"),
    ],
)
def test_words(said: str, answer: str | None, target: str | None) -> None:
    expected = None if answer is None or target is None else Reading(answer, target)
    assert read_answer(said, ("yes", "no")) == expected


@given(st.text(max_size=40))
def test_a_target_opens_the_text_and_is_read_the_same_again(said: str) -> None:
    """Sessions over part of a batch read the targets of the whole once more."""
    for choices in (LETTERS, ("yes", "no")):
        found = read_answer(said, choices)
        if found is not None:
            assert said.lstrip().startswith(found.target)
            assert read_answer(found.target, choices) == found
