"""`audit`: re-derive everything that samples claim, from scene and text alone, and list what does not hold."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np
import numpy.typing as npt

from assay.datasets.grid import executor, interventions
from assay.datasets.grid.bucket import Bucket, parse_bucket
from assay.datasets.grid.certificate import BatchProof, prove
from assay.datasets.grid.executor import NO_ANSWER, Asked, Places, answer_number, parse
from assay.datasets.grid.rules import image_features, strength, text_features
from assay.datasets.grid.sample import GridSample
from assay.datasets.grid.scenes import ADVERSARIAL, ADVERSARIAL_2, ANCHOR, DISTRACTOR, TARGET, TARGET_2, SceneBatch
from assay.datasets.grid.world import World
from assay.kernel.errors import BadInput

Value = str | int | float | None
KEPT = 100  # violations listed per kind; all are counted


@dataclass(frozen=True)
class Violation:
    """A claim that does not hold: of one sample (its id) or of a whole bucket."""

    where: str
    claim: str
    detail: str

    def __str__(self) -> str:
        return f"{self.where}: {self.claim}: {self.detail}"


@dataclass(frozen=True)
class AuditReport:
    """What an audit found. `table` has one row per bucket and mode; rates are shares of samples."""

    samples: int
    violations: tuple[Violation, ...]
    n_violations: int  # may exceed the number listed
    table: list[dict[str, Value]]

    @property
    def ok(self) -> bool:
        return self.n_violations == 0

    def __str__(self) -> str:
        """The table of heuristics per bucket, then the violations."""
        columns = list(dict.fromkeys(name for row in self.table for name in row))
        lines = [[_show(row.get(name)) for name in columns] for row in self.table]
        widths = [max(len(name), *(len(line[k]) for line in lines)) for k, name in enumerate(columns)] if lines else []
        text = ["  ".join(name.ljust(width) for name, width in zip(columns, widths, strict=True))]
        text += ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines]
        text.append(f"{self.samples} samples, {self.n_violations} violations")
        text += [str(violation) for violation in self.violations]
        return "\n".join(line.rstrip() for line in text)


def _show(value: Value) -> str:
    if value is None:
        return "-"
    return f"{value:.3f}" if isinstance(value, float) else str(value)


@dataclass(frozen=True)
class Claims:
    """What a batch of one bucket and mode claims, as arrays; ids name the samples."""

    bucket: Bucket
    world: World
    preset: str
    mode: str
    ids: Sequence[str]
    codes: npt.NDArray[np.uint8]  # (n, P)
    roles: npt.NDArray[np.int8]  # (n, P)
    questions: Sequence[str]
    answers: Sequence[str]
    certificate: dict[str, npt.NDArray[np.generic]]


@dataclass
class Auditor:
    """Takes samples chunk by chunk and reports once. `deep=False` leaves out the interventions."""

    deep: bool = True
    _rows: dict[tuple[str, str, str], dict[str, list[npt.NDArray[np.int64]]]] = field(default_factory=dict)
    _rules: dict[tuple[str, str, str], tuple[Bucket, list[str], list[str]]] = field(default_factory=dict)
    _violations: dict[str, list[Violation]] = field(default_factory=lambda: defaultdict(list))
    _count: int = 0
    _samples: int = 0

    def add(self, claims: Claims) -> None:
        """Check one chunk."""
        bucket, codes = claims.bucket, claims.codes
        queries = [parse(text, claims.world) for text in claims.questions]
        asked = Asked(queries, claims.world)
        truth = asked.execute(codes)
        stated = np.array([answer_number(text) for text in claims.answers], dtype=np.int64)
        self._expect(claims, stated == truth, "the answer is right", f"executor disagrees in {bucket}")
        self._expect(claims, truth != NO_ANSWER, "anchors are unique", "an anchor is missing or not the only one")
        strict = claims.preset == "certified"
        wanted = claims.world.objects(bucket.density)
        if strict:
            full = (codes > 0).sum(axis=1) == wanted
            self._expect(claims, full, "the number of objects is floor(density x cells)", f"not {wanted}")
        regions = self._regions(claims, asked)
        shortcuts = self._shortcuts(asked, codes)
        self._compare(claims, "certificate: valid", regions["valid"])
        self._compare(claims, "certificate: confusers", regions["confusers"])
        self._compare(claims, "certificate: confuser_objects", regions["held"])
        for name, answers in shortcuts.items():
            self._compare(claims, f"certificate: heuristic {name}", answers)
        self._expect(claims, (regions["roles"] == claims.roles).all(axis=1), "roles are right", "a role differs")
        if self.deep:
            self._compare(claims, "certificate: removal", interventions.removals(asked, codes, truth))
            self._compare(claims, "certificate: recolour", interventions.repaints(asked, codes, truth, "colour"))
            self._compare(claims, "certificate: reshape", interventions.repaints(asked, codes, truth, "shape"))
            self._compare(claims, "certificate: move", interventions.moves(asked, codes, truth))
        if strict:
            self._guarantees(claims, asked, truth, regions, shortcuts)
        self._remember(claims, queries, truth, shortcuts, codes)

    def report(self) -> AuditReport:
        """One row per bucket and mode, with the checks that only a whole bucket can pass or fail."""
        table = []
        for key in sorted(self._rows, key=lambda key: (key[0], key[2], key[1])):
            preset, name, mode = key
            bucket, image_rules, text_rules = self._rules[key]
            columns = {column: np.concatenate(parts) for column, parts in self._rows[key].items()}
            row = _summary(bucket, preset, mode, columns, image_rules, text_rules)
            table.append(row)
            if preset == "certified":
                for claim, detail in _bucket_claims(bucket, mode, row, columns["answer"]):
                    self._violate(claim, Violation(f"{name} {mode}", claim, detail))
        self._same_answers()
        listed = tuple(violation for kind in self._violations.values() for violation in kind)
        return AuditReport(self._samples, listed, self._count, table)

    # --- single samples ---

    def _regions(self, claims: Claims, asked: Asked) -> dict[str, npt.NDArray[np.generic]]:
        """Valid regions, confuser regions, what they hold, and the role of every object, found by looking."""
        codes, n = claims.codes, len(claims.codes)
        everything = slice(None)
        likes = [asked.matches(codes, noun, everything) for noun in asked.targets]
        roles = np.where(codes > 0, DISTRACTOR, 0).astype(np.int8)
        if asked.kind == "where":
            anchor = asked.matches(codes, asked.anchors[0], everything)
            roles[likes[0]], roles[anchor] = TARGET, ANCHOR
            same = self._same_direction(claims, asked)
            confuser = ~same
            held = (likes[0] & confuser).sum(axis=1)[:, None]
            return {"valid": same[:, None], "confusers": confuser[:, None], "held": held, "roles": roles}
        inside = [asked.inside(codes, k, everything)[0] for k in range(len(asked.side_of))]
        whole = np.ones(codes.shape, dtype=np.bool_)
        valid = [np.logical_and.reduce([whole, *(r for r, s in zip(inside, asked.side_of, strict=True) if s == side)])
                 for side in range(len(likes))]  # fmt: skip
        confusers, held = [], []
        for k, side in enumerate(asked.side_of):
            others = [r for j, (r, s) in enumerate(zip(inside, asked.side_of, strict=True)) if s == side and j != k]
            region = np.logical_and.reduce([whole, *others]) & ~inside[k]
            confusers.append(region)
            held.append((region & likes[side]).sum(axis=1))
        for side, like in enumerate(likes):
            roles[like] = (ADVERSARIAL, ADVERSARIAL_2)[side]
            roles[like & valid[side]] = (TARGET, TARGET_2)[side]
        for k, noun in enumerate(asked.anchors):
            roles[asked.matches(codes, noun, everything)] = ANCHOR + k
        return {
            "valid": np.stack(valid, axis=1),
            "confusers": np.stack(confusers, axis=1) if confusers else np.zeros((n, 0, codes.shape[1]), np.bool_),
            "held": np.stack(held, axis=1) if held else np.zeros((n, 0), np.int64),
            "roles": roles,
        }

    def _same_direction(self, claims: Claims, asked: Asked) -> npt.NDArray[np.bool_]:
        """(n, P) cells where a target would give the stated answer: put it there and ask, the anchor alone with it."""
        codes = claims.codes
        rows = np.arange(len(codes))
        target = asked.matches(codes, asked.targets[0], slice(None))
        anchor = asked.matches(codes, asked.anchors[0], slice(None))
        code = codes[rows, target.argmax(axis=1)]
        truth = asked.execute(codes)
        same = np.zeros(codes.shape, dtype=np.bool_)
        for cell in range(codes.shape[1]):
            scene = np.where(anchor, codes, 0).astype(np.uint8)
            free = scene[:, cell] == 0
            scene[:, cell] = np.where(free, code, scene[:, cell])
            same[:, cell] = free & (asked.execute(scene) == truth)
        return same

    def _shortcuts(self, asked: Asked, codes: npt.NDArray[np.uint8]) -> dict[str, Places]:
        """What the heuristics answer: cases 1, 3 and 2 of gridvqax2026 section 3.3."""
        if asked.kind == "where":
            return {"bag_of_words": _nearest_side(asked, codes)}
        every = range(len(asked.side_of))
        found = {"bag_of_words": asked.execute(codes, dropped=frozenset(every))}
        for k in every:
            found[f"drop_anchor_{k + 1}"] = asked.execute(codes, dropped=frozenset({k}))
        largest = _largest_group(asked, codes)
        if asked.kind == "how many":
            found["majority"] = largest
        else:
            mine = asked.matches(codes, asked.targets[0], slice(None)).sum(axis=1)
            found["majority"] = np.where(mine == largest, executor.YES, executor.NO)
        return found

    def _guarantees(
        self,
        claims: Claims,
        asked: Asked,
        truth: Places,
        regions: dict[str, npt.NDArray[np.generic]],
        shortcuts: dict[str, Places],
    ) -> None:
        """What preset `certified` promises of every single sample."""
        bucket = claims.bucket
        if claims.mode == "spur":
            self._expect(claims, shortcuts["bag_of_words"] == truth, "in spur the bag of words is right", "it is wrong")
        if asked.kind == "where":
            self._expect(claims, asked.lead(claims.codes) >= 2, "one axis dominates by two cells", "it does not")
            return
        if not bucket.relational:
            return
        self._expect(claims, _distinct(asked), "directions within a side differ", "one repeats")
        self._expect(claims, _off_lines(asked, claims.codes), "no target-like object is on an anchor's line", "one is")
        if claims.mode == "pure":
            held = np.asarray(regions["held"])
            self._expect(claims, (held > 0).all(axis=1), "every confuser region is occupied", "one is empty")
            if bucket.task == "count":
                for name, answers in shortcuts.items():
                    if name != "majority":
                        self._expect(claims, answers != truth, f"in pure counting {name} is wrong", "it is right")

    def _expect(self, claims: Claims, holds: npt.NDArray[np.bool_], claim: str, detail: str) -> None:
        for row in np.flatnonzero(~holds):
            self._violate(claim, Violation(claims.ids[row], claim, detail))

    def _compare(self, claims: Claims, claim: str, found: npt.NDArray[np.generic]) -> None:
        stated = claims.certificate[claim.removeprefix("certificate: ")]
        same = (np.asarray(stated).reshape(len(found), -1) == found.reshape(len(found), -1)).all(axis=1)
        self._expect(claims, same, claim, "the scene says otherwise")

    def _violate(self, kind: str, violation: Violation) -> None:
        self._count += 1
        if len(self._violations[kind]) < KEPT:
            self._violations[kind].append(violation)

    # --- whole buckets ---

    def _remember(
        self,
        claims: Claims,
        queries: Sequence[executor.Query],
        truth: Places,
        shortcuts: dict[str, Places],
        codes: npt.NDArray[np.uint8],
    ) -> None:
        self._samples += len(truth)
        key = (claims.preset, claims.bucket.name, claims.mode)
        image, text = image_features(codes, claims.world), text_features(queries, claims.questions)
        self._rules.setdefault(key, (claims.bucket, list(image), list(text)))
        rows = self._rows.setdefault(key, defaultdict(list))
        rows["answer"].append(truth)
        rows["id"].append(np.array([hash(_pair_id(name)) for name in claims.ids], dtype=np.int64))
        for name, answers in shortcuts.items():
            rows[name].append(answers)
        for name, values in {**image, **text}.items():
            rows[name].append(values)

    def _same_answers(self) -> None:
        """Where both modes were given for the same indices, their answers must be the same, not merely similar."""
        for preset, name, mode in list(self._rows):
            if preset != "certified" or mode != "pure" or (preset, name, "spur") not in self._rows:
                continue
            pure, spur = ({k: np.concatenate(v) for k, v in self._rows[preset, name, m].items() if k in ("id", "answer")}
                          for m in ("pure", "spur"))  # fmt: skip
            common, at_pure, at_spur = np.intersect1d(pure["id"], spur["id"], return_indices=True)
            wrong = int((pure["answer"][at_pure] != spur["answer"][at_spur]).sum())
            if wrong:
                claim = "pure and spur share their answers"
                self._violate(claim, Violation(name, claim, f"{wrong} of {len(common)} shared indices differ"))


def _pair_id(sample_id: str) -> str:
    return sample_id.replace("/pure/", "/").replace("/spur/", "/")


def _summary(
    bucket: Bucket, preset: str, mode: str, columns: dict[str, Places], image: list[str], text: list[str]
) -> dict[str, Value]:
    answers = columns["answer"]
    names, numbers = np.unique(answers, return_counts=True)
    top = int(numbers.argmax())
    row: dict[str, Value] = {
        "bucket": bucket.name, "preset": preset, "mode": mode, "n": len(answers),
        "top answer": executor.WORDS.get(int(names[top]), str(names[top])), "prior": float(numbers[top] / len(answers)),
    }  # fmt: skip
    for name in ("bag_of_words", "drop_anchor_1", "drop_anchor_2", "drop_anchor_3", "drop_anchor_4", "majority"):
        row[name] = float((columns[name] == answers).mean()) if name in columns else None
    for kind, rules in (("image only", image), ("text only", text)):
        scores = {rule: strength(columns[rule], answers) for rule in rules}
        best = max(scores, key=lambda rule: scores[rule])
        row[kind], row[f"{kind}: rule"] = scores[best], best
    return row


def _bucket_claims(bucket: Bucket, mode: str, row: dict[str, Value], answers: Places) -> Iterable[tuple[str, str]]:
    """What `certified` promises of a bucket. Small audits get the allowance that their size calls for."""
    n = len(answers)
    grain = 4 / n  # answers are dealt in eights, so an incomplete block is off by at most four
    noise = 3 * float(np.sqrt(0.25 / n))
    if bucket.task in ("exist", "compare"):
        yes = float((answers == executor.YES).mean())
        if abs(yes - 0.5) > max(0.01, grain):
            yield "yes and no are balanced", f"{yes:.3f} yes"
        if mode == "pure" and bucket.relational:
            for name in ("bag_of_words", *(f"drop_anchor_{k + 1}" for k in range(bucket.n_anchors))):
                rate = row[name]
                assert isinstance(rate, float)
                if abs(rate - 0.5) > max(0.02, grain):
                    yield f"in pure {name} is at chance", f"{rate:.3f}"
    if bucket.task == "direction":
        for side in (executor.LEFT, executor.RIGHT, executor.ABOVE, executor.BELOW):
            share = float((answers == side).mean())
            if abs(share - 0.25) > max(0.01, grain):
                yield "directions are balanced", f"{executor.WORDS[side]} {share:.3f}"
        rate = row["bag_of_words"]
        if mode == "pure" and isinstance(rate, float) and abs(rate - 0.25) > 0.02 + noise:
            yield "in pure the target's position says nothing", f"{rate:.3f}"
    majority = row["majority"]
    if isinstance(majority, float) and majority > 0.5 + noise:
        yield "the visual majority is right at most half of the time", f"{majority:.3f}"
    prior = row["prior"]
    assert isinstance(prior, float)
    for kind in ("image only", "text only"):
        rate = row[kind]
        # The rule was tested on half of the samples; below some hundreds nothing can be said.
        if mode == "pure" and n >= 400 and isinstance(rate, float) and rate > prior + 0.05 + 2 * noise:
            yield f"no {kind} rule beats chance by 5 %", f"{row[kind + ': rule']}: {rate:.3f} against {prior:.3f}"


def _nearest_side(asked: Asked, codes: npt.NDArray[np.uint8]) -> Places:
    """The shortcut of "where" questions: which side of the image is the target nearest to? Left and right win ties."""
    size = asked.world.size
    at = asked.matches(codes, asked.targets[0], slice(None)).argmax(axis=1)
    x, y = at % size, at // size
    margins = np.stack([x, size - 1 - x, y, size - 1 - y])
    near_x, near_y = margins[:2].min(axis=0), margins[2:].min(axis=0)
    sideways = np.where(x < size - 1 - x, executor.LEFT, executor.RIGHT)
    upright = np.where(y < size - 1 - y, executor.ABOVE, executor.BELOW)
    return np.where(near_x <= near_y, sideways, upright).astype(np.int64)


def _largest_group(asked: Asked, codes: npt.NDArray[np.uint8]) -> Places:
    """Size of the largest group of objects that one noun of this kind of question could describe."""
    features = image_features(codes, asked.world)
    colour, shape = asked.targets[0]
    group = "shape" if colour is None else "colour" if shape is None else "class"
    found: Places = features[f"size of the largest {group}"]
    return found


def _distinct(asked: Asked) -> npt.NDArray[np.bool_]:
    sound = np.ones(len(asked.relations[0]), dtype=np.bool_)
    for j, side in enumerate(asked.side_of):
        for k in range(j):
            if asked.side_of[k] == side:
                sound &= asked.relations[j] != asked.relations[k]
    return sound


def _off_lines(asked: Asked, codes: npt.NDArray[np.uint8]) -> npt.NDArray[np.bool_]:
    """No target-like object shares the coordinate that a relation of its side compares."""
    size = asked.world.size
    sound = np.ones(len(codes), dtype=np.bool_)
    cell = np.arange(codes.shape[1])
    for k, side in enumerate(asked.side_of):
        at = asked.matches(codes, asked.anchors[k], slice(None)).argmax(axis=1)[:, None]
        sideways = np.isin(asked.relations[k], ("left of", "right of"))[:, None]
        tie = np.where(sideways, cell % size == at % size, cell // size == at // size)
        sound &= ~(tie & asked.matches(codes, asked.targets[side], slice(None))).any(axis=1)
    return sound


# --- ways in ---


def batch_claims(batch: SceneBatch, proof: BatchProof | None = None) -> Claims:
    """The claims of a batch that was never dressed as samples: for very large audits."""
    proof = prove(batch) if proof is None else proof
    names = {place: answer_number(text) for place, text in enumerate(_answer_texts(batch.world))}
    lookup = np.array([names[place] for place in range(len(names))], dtype=np.int64)
    certificate: dict[str, npt.NDArray[np.generic]] = {
        "valid": proof.valid, "confusers": proof.confusers, "confuser_objects": proof.held, "removal": proof.removal,
        "recolour": proof.recolour, "reshape": proof.reshape, "move": proof.move,
    }  # fmt: skip
    certificate |= {f"heuristic {name}": lookup[places] for name, places in proof.heuristics.items()}
    ids = [f"grid/{batch.preset}/{batch.mode}/{batch.bucket}/{batch.seed}/{index}" for index in batch.index.tolist()]
    return Claims(
        batch.bucket, batch.world, batch.preset, batch.mode, ids, batch.cells, batch.roles, batch.questions,
        batch.answers, certificate,
    )  # fmt: skip


def _answer_texts(world: World) -> Sequence[str]:
    from assay.datasets.grid.scenes import answers

    return answers(world)


def sample_claims(samples: Sequence[GridSample]) -> Claims:
    """The claims of samples of one bucket, mode and preset, read from the samples themselves."""
    first = samples[0]
    certificates = [sample.certificate for sample in samples]
    arrays: dict[str, npt.NDArray[np.generic]] = {
        name: np.stack([getattr(certificate, name) for certificate in certificates])
        for name in ("valid", "confusers", "removal", "recolour", "reshape", "move")
    }
    arrays["confuser_objects"] = np.array([certificate.confuser_objects for certificate in certificates])
    for name in certificates[0].heuristics:
        arrays[f"heuristic {name}"] = np.array([answer_number(c.heuristics[name]) for c in certificates])
    return Claims(
        parse_bucket(str(first.meta["bucket"])), first.scene.world, str(first.meta["preset"]), str(first.meta["mode"]),
        [sample.id for sample in samples], np.stack([sample.scene.cells.ravel() for sample in samples]),
        np.stack([sample.scene.roles.ravel() for sample in samples]), [sample.text or "" for sample in samples],
        [sample.answer or "" for sample in samples], arrays,
    )  # fmt: skip


def audit(samples: Iterable[GridSample], deep: bool = True) -> AuditReport:
    """Check samples of any buckets, modes and presets; `report.ok` says whether every claim holds.

    >>> from assay.datasets.grid.generate import generate
    >>> audit(generate("D1_A_F0_d0.3", 20)).n_violations
    0
    """
    auditor = Auditor(deep=deep)

    def group(sample: GridSample) -> tuple[str, str, str]:
        if not isinstance(sample, GridSample):
            raise BadInput(f"audit reads samples of the grid world, got {type(sample).__name__}")
        return str(sample.meta["preset"]), str(sample.meta["bucket"]), str(sample.meta["mode"])

    for _, members in groupby(samples, key=group):
        chunk = list(members)
        for first in range(0, len(chunk), 1024):
            auditor.add(sample_claims(chunk[first : first + 1024]))
    return auditor.report()
