from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from karat.datasets.cues import CUES, RULES, find_rule, make_rule
from karat.kernel.errors import KaratError

VOTES = list(product((True, False), repeat=6))


def by_hand(name, v):
    """Each rule written down again, cue by cue; None where a needed cue is missing."""
    tag, word, frame, content = v["tag"], v["word"], v["frame"], v["content"]
    if name == "tag_xor_word":
        return None if None in (tag, word) else (tag and not word) or (word and not tag)
    if name == "tag_and_word":
        return tag is True and word is True
    if name == "either":
        return tag is True or frame is True
    if name == "content_unless_tag":
        return tag if tag is not None else content
    return v[name]


@pytest.mark.parametrize("name", RULES)
def test_tables_are_the_rules_written_by_hand(name):
    rule = RULES[name]
    for values in product((True, False, None), repeat=6):
        votes = dict(zip(CUES, values, strict=True))
        assert rule.answer(votes) == by_hand(name, votes)
    assert len(rule.table) == 3 ** len(rule.cues)


@pytest.mark.parametrize(
    ("name", "share"), [("tag", 0.5), ("tag_xor_word", 0.5), ("tag_and_word", 0.25), ("either", 0.75)]
)
def test_shares_of_yes(name, share):
    assert RULES[name].share == share


@pytest.mark.parametrize("name", RULES)
def test_what_is_used_are_the_smallest_changes_that_turn_the_answer(name):
    rule = RULES[name]
    for values in VOTES:
        votes = dict(zip(CUES, values, strict=True))
        for some in rule.decisive(votes):
            assert rule.flips(votes, some)
            assert not any(rule.flips(votes, some - {cue}) for cue in some)
        # Whatever is not used can be turned round, alone or together, and nothing happens.
        assert not rule.flips(votes, frozenset(CUES) - rule.used(votes))
        assert rule.used(votes) <= set(rule.cues)
        assert rule.used(votes)


@pytest.mark.parametrize(
    ("name", "votes", "used"),
    [
        ("either", {"tag": True, "frame": True}, {"tag", "frame"}),  # redundant: only both together turn it
        ("either", {"tag": True, "frame": False}, {"tag"}),
        ("either", {"tag": False, "frame": False}, {"tag", "frame"}),
        ("either", {"tag": None, "frame": True}, {"frame"}),
        ("tag_and_word", {"tag": True, "word": True}, {"tag", "word"}),
        ("tag_and_word", {"tag": False, "word": True}, {"tag"}),
        ("content_unless_tag", {"content": True, "tag": False}, {"tag"}),
        ("content_unless_tag", {"content": True, "tag": None}, {"content"}),
        ("tag", {"tag": None}, set()),
    ],
)
def test_used_here(name, votes, used):
    assert RULES[name].used(votes) == used


def test_redundant_cues_turn_the_answer_only_together():
    votes = {"tag": True, "frame": True}
    assert RULES["either"].decisive(votes) == (frozenset({"tag", "frame"}),)
    assert RULES["either"].answer({"tag": None, "frame": True}) is True
    assert RULES["either"].answer({"tag": None, "frame": None}) is False


@given(st.sampled_from(sorted(RULES)), st.sampled_from(VOTES), st.lists(st.floats(0, 1), min_size=6, max_size=6))
def test_probability_is_the_mean_over_what_may_be_there(name, values, shares):
    """Against a sum over all 64 ways that cues can be there or not."""
    rule, votes = RULES[name], dict(zip(CUES, values, strict=True))
    visible = dict(zip(CUES, shares, strict=True))
    slow = 0.0
    for there in product((True, False), repeat=6):
        weight = 1.0
        for cue, present in zip(CUES, there, strict=True):
            weight *= visible[cue] if present else 1 - visible[cue]
        answer = by_hand(name, {cue: votes[cue] if present else None for cue, present in zip(CUES, there, strict=True)})
        slow += weight * (0.5 if answer is None else answer)
    assert rule.probability(votes, visible) == pytest.approx(slow)


def test_full_sight_gives_the_table_and_no_sight_gives_nothing():
    votes = dict.fromkeys(CUES, True)
    assert RULES["tag"].probability(votes, dict.fromkeys(CUES, 1.0)) == 1.0
    assert RULES["tag"].probability(votes, dict.fromkeys(CUES, 0.0)) == 0.5
    assert RULES["either"].probability(votes, dict.fromkeys(CUES, 0.0)) == 0.0


def test_unknown_rules_and_cues_are_refused_with_what_there_is():
    with pytest.raises(KaratError, match="tag_xor_word"):
        find_rule("tag_xor_wort")
    with pytest.raises(KaratError, match="cue"):
        make_rule("x", ("colour",), "", lambda vote: vote)
    mine = make_rule("frame_and_side", ("frame", "side"), "both", lambda frame, side: bool(frame) and bool(side))
    assert find_rule(mine) is mine
    assert mine.answer({"frame": True, "side": True}) is True
