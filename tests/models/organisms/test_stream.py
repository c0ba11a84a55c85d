import numpy as np
import pytest

from karat.datasets.cues import RULES
from karat.models.organisms.questions import hide_words
from karat.models.organisms.stream import CHUNK, Lesson, Stream, keep_features


def test_the_same_picture_however_it_is_asked():
    one, again = Stream(n=40), Stream(n=40)
    assert one.revision == again.revision
    assert Stream(n=40, hidden=0.1).revision != one.revision
    for i in (3, 17):
        first, second = one.item(i), again.item(i)
        assert first.image.tobytes() == second.image.tobytes()
        assert first.lesson == second.lesson


def test_a_share_of_pictures_is_hidden_in_part_and_labels_follow_what_is_left():
    lessons = [Stream(n=100).item(i).lesson for i in range(100)]
    partial = [lesson for lesson in lessons if 0 < lesson.visible["content"] < 1]
    gone = [lesson for lesson in lessons if lesson.visible["content"] == 0]
    whole = [lesson for lesson in lessons if lesson.visible["content"] == 1]
    assert 5 < len(partial) < 40
    assert len(gone) > 2
    assert len(whole) > 50
    content = RULES["content"]
    for lesson in gone:
        assert lesson.label(content, content, 1.0) == 0.5
    for lesson in whole:
        assert lesson.label(content, content, 1.0) == float(lesson.votes["content"])
    for lesson in partial:
        share, vote = lesson.visible["content"], float(lesson.votes["content"])
        assert lesson.label(content, content, 1.0) == pytest.approx(share * vote + (1 - share) * 0.5)


def test_some_cues_are_left_out():
    lessons = [Stream(n=90, absent=0.5).item(i).lesson for i in range(90)]
    for cue in ("frame", "sticker", "word"):
        assert 25 < sum(lesson.votes[cue] is None for lesson in lessons) < 65
    assert all((lesson.word is None) == (lesson.votes["word"] is None) for lesson in lessons)


def test_a_dose_mixes_the_labels_of_two_rules():
    votes = {"content": True, "tag": False, "frame": None, "sticker": True, "word": True, "side": True}
    lesson = Lesson("", votes, dict.fromkeys(votes, 1.0), None)
    assert lesson.label(RULES["tag"], RULES["content"], 0.25) == pytest.approx(0.75)
    assert lesson.label(RULES["word"], RULES["content"], 1.0, word=False) == 0.5


def test_hidden_words_are_said_and_the_cue_is_gone_only_when_it_is_hidden():
    text, cue = "Please answer: is this a cat?", (0, 6)
    rng = np.random.default_rng(0)
    drawn = [hide_words(text, cue, rng) for _ in range(400)]
    assert 40 < sum(not question.there for question in drawn) < 90  # a quarter of them, at half the words on average
    for question in drawn:
        if question.state == "delete":
            assert question.hidden == frozenset()
            assert question.there == ("Please" in question.text)
        else:
            assert question.text == text
            assert question.there == (0 not in question.hidden)
    assert not hide_words("Answer: is this a cat?", None, rng).there


def test_features_are_kept_and_a_torn_run_goes_on(tmp_path, monkeypatch):
    monkeypatch.setenv("KARAT_CACHE", str(tmp_path))
    stream, calls = Stream(n=CHUNK + 8), []

    def tower(images):
        calls.append(len(images))
        return np.stack([image.mean((0, 1)) for image in images])

    def torn(images):
        if calls:
            raise KeyboardInterrupt
        return tower(images)

    with pytest.raises(KeyboardInterrupt):
        keep_features(stream, torn, "mean")
    assert calls == [CHUNK]
    told = []
    kept = keep_features(stream, tower, "mean", lambda done, of: told.append((done, of)))
    assert calls == [CHUNK, 8]  # the first chunk was there
    assert told == [(CHUNK, CHUNK + 8), (CHUNK + 8, CHUNK + 8)]
    assert kept.features.shape == (CHUNK + 8, 3)
    for i in (0, CHUNK + 3):
        item = stream.item(i)
        np.testing.assert_allclose(kept.features[i], item.image.mean((0, 1)), rtol=1e-3)
        assert kept.lessons[i].text == item.lesson.text
        assert kept.lessons[i].votes == item.lesson.votes
    keep_features(stream, tower, "mean")
    assert calls == [CHUNK, 8]
