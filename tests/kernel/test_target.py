"""`Target`: spans of what was said, by words, phrases, sentences and tokens; which tokens belong to a span."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from karat.kernel.errors import BadInput
from karat.kernel.target import Target, distinct, instead, plain, tokens_of, whole_answer

SAID = "A dog sees a red dog. It runs 1.5 m!\nThe dog's bone"


def test_context_is_what_was_said_before() -> None:
    choice = Target("(B) a cup", (1, 2))
    assert (choice.context, choice.words, str(choice)) == ("(", "B", "B")
    joint = Target("(B) a cup", (1, 2), joint=True)
    assert (joint.context, joint.words) == ("", "(B")


def test_white_space_at_the_ends_of_a_span_is_left_out() -> None:
    assert Target("a dog ", (1, 6)) == Target("a dog ", (2, 5))
    assert Target("a\n b", (1, 3)).span == (1, 3)  # there is nothing else


@pytest.mark.parametrize(
    ("made", "span"),
    [
        (lambda: Target.word("dog", SAID), (2, 5)),
        (lambda: Target.word("dog", SAID, occurrence=2), (17, 20)),
        (lambda: Target.word("a", SAID), (11, 12)),  # as written
        (lambda: Target.word("RED", SAID), (13, 16)),  # in any case
        (lambda: Target.word("dog's", SAID), (41, 46)),
        (lambda: Target.phrase("red dog", SAID), (13, 20)),
        (lambda: Target.phrase("red   dog", SAID), (13, 20)),
        (lambda: Target.phrase("a dog", SAID), (0, 5)),
        (lambda: Target.phrase("(B)", "so (B)."), (3, 6)),
        (lambda: Target.sentence(1, SAID), (0, 21)),
        (lambda: Target.sentence(2, SAID), (22, 36)),  # 1.5 is no end
        (lambda: Target.sentence(-1, SAID), (37, 51)),  # a line is
        (lambda: Target.token(2, "(B)", [(0, 1), (1, 2), (2, 3)]), (1, 2)),
        (lambda: Target.token(-1, "a dog", [(0, 1), (1, 5)]), (2, 5)),
        (lambda: Target.whole("a dog"), (0, 5)),
    ],
)
def test_spans_by_what_people_say(made: Callable[[], Target], span: tuple[int, int]) -> None:
    assert made().span == span


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: Target.word("dgo", SAID), r"'dgo' was not said; what was said is .*\. Did you mean 'dog' or"),
        (lambda: Target.word("do", "A dog"), "'do' was not said"),
        (lambda: Target.word("zebra", "A dog"), r"'zebra' was not said; what was said is 'A dog'\.$"),
        (lambda: Target.word("dog", SAID, occurrence=3), "'dog' was said 2 times, counted from 1; got occurrence 3"),
        (lambda: Target.word("red", SAID, occurrence=0), "'red' was said once, counted from 1; got occurrence 0"),
        (lambda: Target.phrase("red dgo", SAID), "Did you mean 'red dog'"),
        (lambda: Target.phrase(" ", SAID), "at least one word"),
        (lambda: Target.sentence(4, SAID), "has 3 sentences, counted from 1, or from -1 backwards; got 4"),
        (lambda: Target.token(0, "a", [(0, 1)]), "has 1 tokens, counted from 1, or from -1 backwards; got 0"),
        (lambda: Target("dog", (0, 4)), r"within the 3 characters of what was said; got \(0, 4\)"),
        (lambda: Target("dog", (2, 2)), "a span is"),
        (lambda: Target("dog", (0, 3), contrast=" "), "a contrast is a text"),
    ],
)
def test_what_was_not_said_is_refused_with_the_nearest(made: Callable[[], Target], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        made()


@pytest.mark.parametrize(
    ("target", "spans", "expected"),
    [
        # "(", "B", ")": the border is one of tokens
        (Target("(B)", (1, 2)), [(0, 1), (1, 2), (2, 3)], (1, 2)),
        # "(B", ")": a token over the border belongs to the span, and its bracket with it
        (Target("(B)", (1, 2)), [(0, 2), (2, 3)], (0, 1)),
        (Target("(B)", (1, 2)), [(0, 1), (1, 3)], (1, 2)),
        (Target("(B)", (1, 2)), [(0, 3)], (0, 1)),
        # " dog": the space in front is the token's own, whether or not the tokenizer counts it
        (Target("a dog", (2, 5)), [(0, 1), (1, 5)], (1, 2)),
        (Target("a dog", (2, 5)), [(0, 1), (2, 5)], (1, 2)),
        # " ", "dog": a token that is the space alone is context
        (Target("a dog", (1, 5)), [(0, 1), (1, 2), (2, 5)], (2, 3)),
        # pieces of one character share its span
        (Target("a é!", (2, 3)), [(0, 1), (2, 3), (2, 3), (3, 4)], (1, 3)),
        # tokens of no characters belong to nobody, but stay between those that do, or open the text
        (Target("ab", (0, 2)), [(0, 0), (0, 1), (1, 1), (1, 2), (2, 2)], (0, 4)),
        (Target("abc", (1, 3)), [(0, 0), (0, 1), (1, 1), (1, 2), (2, 2), (2, 3)], (3, 6)),
        # a phrase is all tokens from its first to its last
        (Target("a red dog", (2, 9)), [(0, 1), (1, 5), (5, 9)], (1, 3)),
        (Target("(B)", (1, 2), joint=True), [(0, 1), (1, 2), (2, 3)], (0, 2)),
        ("(B)", [(0, 1), (1, 2), (2, 3)], (0, 3)),
    ],
)
def test_a_token_belongs_to_a_span_if_it_covers_any_character_of_it(
    target: str | Target, spans: list[tuple[int, int]], expected: tuple[int, int]
) -> None:
    assert tokens_of(target, spans) == expected


def test_a_span_without_tokens_is_an_error() -> None:
    with pytest.raises(BadInput, match="no token of 'ab' covers 'b'"):
        tokens_of(Target("ab", (1, 2)), [(0, 1)])


@given(st.data())
def test_spans_that_part_a_text_part_its_tokens(data: st.DataObject) -> None:
    """Neighbouring spans cut between tokens share none and leave none out."""
    sizes = data.draw(st.lists(st.integers(1, 4), min_size=2, max_size=8))
    ends = [sum(sizes[: k + 1]) for k in range(len(sizes))]
    spans = list(zip([0, *ends[:-1]], ends, strict=True))
    text = "x" * ends[-1]
    cut = data.draw(st.integers(1, len(spans) - 1))
    border = spans[cut][0]
    first, second = Target(text, (0, border)), Target(text, (border, len(text)))
    assert tokens_of(first, spans) == (0, cut)
    assert tokens_of(second, spans) == (cut, len(spans))
    assert tokens_of(Target(text, (border, len(text)), joint=True), spans) == (0, len(spans))


def test_a_whole_text_is_written_as_itself() -> None:
    assert plain(Target.whole("yes")) == "yes"
    assert plain(Target("(B)", (1, 2))) == Target("(B)", (1, 2))
    assert isinstance(plain(Target.whole("yes", contrast="no")), Target)


def test_models_that_answer_as_a_whole_take_no_part() -> None:
    assert whole_answer("yes", "m") == whole_answer(Target.whole("yes"), "m") == "yes"
    with pytest.raises(BadInput, match=r"'m' answers as a whole.*asked for 'B' of '\(B\)'"):
        whole_answer(Target("(B)", (1, 2)), "m")


def test_other_words_in_the_same_place() -> None:
    assert Target("(B) a cup", (1, 2)).instead("A") == Target("(A", (1, 2))
    assert instead("yes", "no") == "no"
    assert instead(Target("so yes!", (3, 6)), "no").context == "so "


def test_distinct_targets_have_one_order() -> None:
    b, other = Target("(B)", (1, 2)), Target("[B]", (1, 2))
    assert distinct(["yes", b, "no", other, b, "A"]) == ["A", b, other, "no", "yes"]
