"""Words of one vocabulary for classes of another: sound as data, and used where a model lacks a name."""

from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from real_data import real_data

from karat.cli.check import check
from karat.datasets.segmentation.imagenet import labels
from karat.datasets.segmentation.scene import Scene, _ranks
from karat.datasets.segmentation.voc import NAMES, Voc
from karat.datasets.segmentation.vocabulary import _entries, aliases, without_word, words
from karat.kernel.errors import BadInput
from karat.protocols.semantic.target import Rules, choose


def test_every_word_is_a_class_of_imagenet_and_means_one_thing() -> None:
    known = set(labels())
    kinds = [kind for _, kinds in _entries() for kind in kinds]
    assert set(kinds) <= known
    assert len(kinds) == len(set(kinds))
    names = [name for names, _ in _entries() for name in names]
    assert len(names) == len(set(names))
    assert without_word(NAMES[1:], known) == ["person", "pottedplant"]


def test_reviewed_words() -> None:
    """Where WordNet's first sense, or its tree, is not what annotators mean."""
    assert "plane" not in words("aeroplane")  # a carpenter's
    assert {"cougar", "lynx"}.isdisjoint(words("cat"))
    assert {"racer", "cab"} <= words("car")
    assert "dingo" not in words("dog")
    assert len(words("dog") & set(labels())) == 118


def test_a_word_for_two_classes_of_one_set_is_left_out() -> None:
    assert aliases(["tv", "television receiver"]) == {}
    assert "airplane" not in aliases(["aeroplane", "airplane"]).values()


def test_classes_of_lvis() -> None:
    """Spaces are underscores there, and the more special class keeps its own word."""
    known = set(labels())
    classes = ["bus_(vehicle)", "school_bus", "wineglass", "automatic_washer", "fire_engine", "truck", "wall_socket"]
    means = aliases(classes)
    assert (means["school bus"], means["minibus"]) == ("school_bus", "bus_(vehicle)")
    assert (means["fire engine"], means["garbage truck"]) == ("fire_engine", "truck")
    assert (means["goblet"], means["washer"]) == ("wineglass", "automatic_washer")
    assert without_word(classes, known) == ["wall_socket"]


class Breeds:
    """Knows breeds and teapots, and ranks them all."""

    name, capabilities, mechanism = "breeds", frozenset({"scores"}), None
    scores: ClassVar = {"beagle": 0.2, "collie": 0.5, "teapot": 0.3}

    def ranking(self, samples, top):
        return [sorted(self.scores.items(), key=lambda pair: -pair[1])[:top] for _ in samples]


def scene(*present: str) -> Scene:
    masks = {name: np.zeros((4, 6), bool) for name in present}
    for k, mask in enumerate(masks.values()):
        mask[: 4 - k, 2 * k : 2 * k + 2] = True
    return Scene("s", np.zeros((4, 6, 3), np.uint8), masks, aliases=aliases(NAMES[1:]))


def test_the_likeliest_word_for_a_class_is_explained() -> None:
    [first, second] = _ranks(scene("dog", "person"), 2)
    dog, person = choose(Rules("truth", 0.0), Breeds(), [first, second])
    assert (dog.answer, dog.label, dog.confidence, dog.left_out) == ("collie", "collie", 0.5, None)
    assert dog.correct
    assert person.left_out == "the model has no word for 'person'"
    [said] = choose(Rules("predicted", 0.0), Breeds(), [first])
    assert (said.answer, said.correct) == ("collie", True)
    [present] = choose(Rules("present", 0.0), Breeds(), [first])
    assert (present.answer, present.confidence) == ("collie", 1.0)
    [wrong] = choose(Rules("predicted", 0.0), Breeds(), [_ranks(scene("cat"), 1)[0]])
    assert not wrong.correct


def test_check_says_how_many_classes_have_a_word(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = real_data("seg_native") / "VOCdevkit" / "VOC2012"
    assert Voc(str(root)).vocabulary() == NAMES[1:]
    spec = tmp_path / "spec.yaml"
    text = f"""
name: small
protocol: semantic
models: [{{name: classifier, architecture: resnet10t, labels: LABELS}}]
datasets: [{{name: segmentation/voc, root: "{root}"}}]
explainers: [control/uniform, cam/gradcam]
"""
    spec.write_text(text.replace("LABELS", "imagenet"))
    check(str(spec))
    line = "resnet10t has words for 18 of 20 classes of voc:val: none for person, pottedplant"
    assert line in capsys.readouterr().out
    spec.write_text(text.replace("LABELS", "[teapot, spoon]"))
    with pytest.raises(BadInput, match="no word for any class of voc:val"):
        check(str(spec))
