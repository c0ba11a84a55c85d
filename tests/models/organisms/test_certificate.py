"""The certificate on models that are right, or wrong in a known way, by construction."""

from dataclasses import dataclass

import numpy as np
import pytest

from karat.datasets.cues import CUES, RULES, generate
from karat.kernel.errors import KaratError
from karat.models.organisms.certificate import certify
from karat.models.organisms.verify import coin_bounds, make_trials, verify_organism

SAMPLES = generate(24, seed=11)
TRIALS = make_trials(48, 24, seed=5)


@dataclass
class Follower:
    """Answers by a rule, reading the cues off the sample; where the rule says nothing, "no"."""

    mechanism: str
    reads: bool = True
    leak: str = ""  # a cue that decides on every tenth sample
    ignores_hiding: bool = False
    calls: int = 0
    name: str = "follower"

    @property
    def capabilities(self):
        return frozenset({"scores", "mechanism"} | ({"text"} if self.reads else set()))

    def answer(self, samples):
        self.calls += len(samples)
        return [self.one(sample) for sample in samples]

    def one(self, sample):
        votes = dict(sample.votes)
        if self.ignores_hiding:
            votes = {**votes, **{cue: self.original[sample.id.split(" ")[0]][cue] for cue in sample.hidden}}
        if self.leak and int(sample.id.split(" ")[0].split("-")[1]) % 10 == 0:
            return "yes" if votes[self.leak] else "no"
        return "Yes." if RULES[self.mechanism].answer(votes) else "no"


@pytest.mark.parametrize("name", RULES)
def test_a_model_that_follows_its_rule_has_a_whole_certificate(name):
    for sample, certificate in zip(SAMPLES, certify(Follower(name), SAMPLES), strict=True):
        rule = RULES[name]
        if sample.expected(rule) is None:
            assert "says nothing here" in certificate.reason
            continue
        assert certificate.follows, certificate.reason
        assert certificate.answer == certificate.expected == sample.expected(rule)
        for cues, flipped in certificate.flipped.items():
            assert flipped == rule.flips(sample.votes, cues)
        # What the certificate saw is what the rule says must be used, as far as one change shows it.
        alone = {cue for cue in CUES if certificate.flipped.get(frozenset({cue}))}
        assert alone <= rule.used(sample.votes)


def test_a_model_of_another_rule_is_caught_on_every_sample_that_tells_them_apart():
    for sample, certificate in zip(SAMPLES, certify(Follower("frame"), SAMPLES, rule="sticker"), strict=True):
        assert not certificate.follows
        if sample.votes["frame"] != sample.votes["sticker"]:
            assert "answers" in certificate.reason
        else:
            assert "against its rule sticker" in certificate.reason


def test_it_asks_once_for_the_sample_and_once_for_each_change():
    model = Follower("tag_xor_word")
    tagged = [sample for sample in SAMPLES if sample.votes["tag"] is not None]
    certify(model, tagged)
    assert model.calls == len(tagged) * (1 + 6 + 1)
    blind = Follower("either", reads=False)
    made = certify(blind, tagged)
    assert blind.calls == len(tagged) * (1 + 5 + 1)
    assert all(frozenset({"word"}) not in one.flipped for one in made)
    assert all(frozenset({"tag", "frame"}) in one.flipped for one in made)


@pytest.mark.parametrize("name", RULES)
def test_the_verdict_of_a_follower_is_yes(name):
    proof = verify_organism(Follower(name), trials=TRIALS)
    assert proof.ok, proof.verdict
    assert f"the rule {name} holds" in proof.verdict


@pytest.mark.parametrize(("name", "leak"), [("tag", "word"), ("frame", "sticker"), ("tag_and_word", "content")])
def test_the_verdict_of_a_model_with_a_leak_is_no(name, leak):
    proof = verify_organism(Follower(name, leak=leak), trials=TRIALS)
    assert not proof.ok
    failed = [check.says for check in proof.checks if not check.ok]
    assert f"{leak} turned round: answer stays" in failed


def test_a_model_that_sees_through_hiding_is_caught():
    model = Follower("tag", ignores_hiding=True)
    model.original = {sample.id: sample.votes for sample in TRIALS.samples}
    failed = [check.says for check in verify_organism(model, trials=TRIALS).checks if not check.ok]
    assert [says for says in failed if "tag hidden in" in says] == failed
    assert len(failed) == 5


def test_redundant_cues_keep_the_answer_one_by_one_and_lose_it_together():
    checks = {check.says: check for check in verify_organism(Follower("either"), trials=TRIALS).checks}
    both = checks["frame and tag hidden in white: answers as its table says"]
    one = checks["frame hidden in white: answers as its table says"]
    assert (both.share.value, one.share.value) == (1.0, 1.0)
    assert checks["frame and tag turned round: answer changes"].share.n > 0


def test_progress_counts_every_kind_of_trial():
    told = []
    verify_organism(Follower("side"), trials=TRIALS, progress=lambda done, of: told.append((done, of)))
    assert told[-1][0] == told[-1][1] == len(told)


def test_what_cannot_be_certified_is_refused():
    with pytest.raises(KaratError, match="which rule"):
        certify(Follower(None), SAMPLES[:1])
    with pytest.raises(KaratError, match="rule"):
        certify(Follower("colour"), SAMPLES[:1])
    with pytest.raises(KaratError, match="reads no question"):
        verify_organism(Follower("tag_and_word", reads=False), trials=TRIALS)
    with pytest.raises(KaratError, match="24 samples"):
        make_trials(4)


def test_a_state_that_does_not_hide_a_cue_is_not_held_against_its_rule():
    """A blurred border still shows its colour, and so does the mean of a picture of which it is a third."""
    image = SAMPLES[0].with_cues(frame=True).image
    orange, teal = (SAMPLES[0].with_cues(frame=vote).without("frame", state="blur").image[0] for vote in (True, False))
    assert image.shape == (192, 192, 3)
    assert abs(orange.mean(0) - teal.mean(0)).max() > 40  # of 255
    checks = {check.says for check in verify_organism(Follower("frame"), trials=TRIALS).checks}
    assert not any("frame hidden in blur" in says or "frame hidden in mean" in says for says in checks)
    assert any("frame hidden in white" in says for says in checks)
    assert any("tag hidden in blur" in says for says in checks)
    others = {check.says for check in verify_organism(Follower("tag"), trials=TRIALS).checks}
    assert any("frame hidden in blur" in says for says in others)  # it must not matter to a rule of the tag


@pytest.mark.parametrize("claims", [1, 6, 30])
def test_fair_coins_seldom_fail_a_certificate_and_loaded_ones_do(claims):
    """Of 4,000 certificates with so many claims of 96 tosses each, by exactly fair coins and by coins of 0.75."""
    rng = np.random.default_rng(claims)
    low, high = coin_bounds(96, claims)
    fails = {}
    for fair in (0.5, 0.75):
        shares = rng.binomial(96, fair, (4000, claims)) / 96
        fails[fair] = float(((shares < low) | (shares > high)).any(axis=1).mean())
    assert fails[0.5] <= 0.05
    assert fails[0.75] > 0.8
    assert coin_bounds(10**8, claims) == pytest.approx((0.47, 0.53), abs=1e-3)
