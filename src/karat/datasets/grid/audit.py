"""`audit`: re-derive everything that samples claim, from scene and text alone, and list what does not hold."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt

from karat.datasets.grid import interventions
from karat.datasets.grid.bucket import Bucket
from karat.datasets.grid.bucket import buckets as standard_buckets
from karat.datasets.grid.claims import Claims, batch_claims, sample_claims
from karat.datasets.grid.executor import NO_ANSWER, Asked, Codes, Places, Query, answer_number, parse
from karat.datasets.grid.findings import distinct_directions, off_lines, regions, shortcuts
from karat.datasets.grid.generate import generate_batch
from karat.datasets.grid.rules import image_features, text_features
from karat.datasets.grid.sample import GridSample
from karat.datasets.grid.summary import Value, bucket_failures, summary
from karat.kernel.errors import BadInput

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
        questions = Asked(queries, claims.world)
        truth = questions.execute(codes)
        stated = np.array([answer_number(text) for text in claims.answers], dtype=np.int64)
        self._expect(claims, stated == truth, "the answer is right", f"executor disagrees in {bucket}")
        self._expect(claims, truth != NO_ANSWER, "anchors are unique", "an anchor is missing or not the only one")
        strict = claims.preset == "certified"
        wanted = claims.world.objects(bucket.density)
        if strict:
            full = (codes > 0).sum(axis=1) == wanted
            self._expect(claims, full, "the number of objects is floor(density x cells)", f"not {wanted}")
        computed = regions(questions, codes)
        cheap = shortcuts(questions, codes)
        self._compare(claims, "certificate: valid", computed["valid"])
        self._compare(claims, "certificate: confusers", computed["confusers"])
        self._compare(claims, "certificate: confuser_objects", computed["held"])
        for name, answers in cheap.items():
            self._compare(claims, f"certificate: heuristic {name}", answers)
        self._expect(claims, (computed["roles"] == claims.roles).all(axis=1), "roles are right", "a role differs")
        if self.deep:
            self._compare(claims, "certificate: removal", interventions.removals(questions, codes, truth))
            self._compare(claims, "certificate: recolour", interventions.repaints(questions, codes, truth, "colour"))
            self._compare(claims, "certificate: reshape", interventions.repaints(questions, codes, truth, "shape"))
            self._compare(claims, "certificate: move", interventions.moves(questions, codes, truth))
        if strict:
            self._guarantees(claims, questions, truth, computed, cheap)
        self._remember(claims, queries, truth, cheap, codes)

    def report(self) -> AuditReport:
        """One row per bucket and mode, with the checks that only a whole bucket can pass or fail."""
        table = []
        for key in sorted(self._rows, key=lambda key: (key[0], key[2], key[1])):
            preset, name, mode = key
            bucket, image_rules, text_rules = self._rules[key]
            columns = {column: np.concatenate(parts) for column, parts in self._rows[key].items()}
            row = summary(bucket, preset, mode, columns, image_rules, text_rules)
            table.append(row)
            if preset == "certified":
                for claim, detail in bucket_failures(bucket, mode, row, columns["answer"]):
                    self._violate(claim, Violation(f"{name} {mode}", claim, detail))
        self._same_answers()
        listed = tuple(violation for kind in self._violations.values() for violation in kind)
        return AuditReport(self._samples, listed, self._count, table)

    # --- single samples ---

    def _guarantees(
        self,
        claims: Claims,
        questions: Asked,
        truth: Places,
        computed: dict[str, npt.NDArray[Any]],
        cheap: dict[str, Places],
    ) -> None:
        """What preset `certified` promises of every single sample."""
        bucket = claims.bucket
        if claims.mode == "spur":
            self._expect(claims, cheap["bag_of_words"] == truth, "in spur the bag of words is right", "it is wrong")
        if questions.kind == "where":
            self._expect(claims, questions.lead(claims.codes) >= 2, "one axis dominates by two cells", "it does not")
            return
        if not bucket.relational:
            return
        self._expect(claims, distinct_directions(questions), "directions within a side differ", "one repeats")
        self._expect(
            claims, off_lines(questions, claims.codes), "no target-like object is on an anchor's line", "one is"
        )
        if claims.mode == "pure":
            occupied = np.asarray((computed["held"] > 0).all(axis=1))
            self._expect(claims, occupied, "every confuser region is occupied", "one is empty")
            if bucket.task == "count":
                for name, answers in cheap.items():
                    if name != "majority":
                        self._expect(claims, answers != truth, f"in pure counting {name} is wrong", "it is right")

    def _expect(self, claims: Claims, holds: npt.NDArray[np.bool_], claim: str, detail: str) -> None:
        for row in np.flatnonzero(~holds).tolist():
            self._violate(claim, Violation(claims.ids[row], claim, detail))

    def _compare(self, claims: Claims, claim: str, computed: npt.NDArray[Any]) -> None:
        stated = claims.certificate[claim.removeprefix("certificate: ")]
        same = (np.asarray(stated).reshape(len(computed), -1) == computed.reshape(len(computed), -1)).all(axis=1)
        self._expect(claims, same, claim, "the scene says otherwise")

    def _violate(self, kind: str, violation: Violation) -> None:
        self._count += 1
        if len(self._violations[kind]) < KEPT:
            self._violations[kind].append(violation)

    # --- whole buckets ---

    def _remember(
        self,
        claims: Claims,
        queries: Sequence[Query],
        truth: Places,
        cheap: dict[str, Places],
        codes: Codes,
    ) -> None:
        self._samples += len(truth)
        key = (claims.preset, claims.bucket.name, claims.mode)
        image, text = image_features(codes, claims.world), text_features(queries, claims.questions)
        self._rules.setdefault(key, (claims.bucket, list(image), list(text)))
        rows = self._rows.setdefault(key, defaultdict(list))
        rows["answer"].append(truth)
        rows["id"].append(np.array([hash(_pair_id(name)) for name in claims.ids], dtype=np.int64))
        for name, answers in cheap.items():
            rows[name].append(answers)
        for name, values in {**image, **text}.items():
            rows[name].append(values)

    def _same_answers(self) -> None:
        """Where both modes were given for the same indices, their answers must be the same, not merely similar."""
        for preset, name, mode in list(self._rows):
            if preset != "certified" or mode != "pure" or (preset, name, "spur") not in self._rows:
                continue
            pure, spur = self._rows[preset, name, "pure"], self._rows[preset, name, "spur"]
            ids = np.concatenate(pure["id"]), np.concatenate(spur["id"])
            common, at_pure, at_spur = np.intersect1d(*ids, return_indices=True)
            wrong = int((np.concatenate(pure["answer"])[at_pure] != np.concatenate(spur["answer"])[at_spur]).sum())
            if wrong:
                claim = "pure and spur share their answers"
                self._violate(claim, Violation(name, claim, f"{wrong} of {len(common)} shared indices differ"))


def _pair_id(sample_id: str) -> str:
    return sample_id.replace("/pure/", "/").replace("/spur/", "/")


def audit(samples: Iterable[GridSample], deep: bool = True) -> AuditReport:
    """Check samples of any buckets, modes and presets against what their world claims.

    Args:
        samples: of the grid world.
        deep: also work every question out anew and try every certificate.

    Returns:
        Counts and violations; `report.ok` says whether every claim holds.

    Example:
        >>> from karat.datasets.grid.generate import generate
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


def audit_generated(
    per_bucket: int,
    seed: int = 0,
    preset: str = "certified",
    buckets: Sequence[str] | None = None,
    modes: Sequence[str] = ("pure", "spur"),
    deep: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> AuditReport:
    """Generate and audit in one go, without images: the way to check a million samples.

    >>> audit_generated(8, buckets=["D3_M_F0_d0.3"]).samples
    16
    """
    names = standard_buckets(published_only=preset == "paper") if buckets is None else buckets
    auditor, done = Auditor(deep=deep), 0
    for name in names:
        for mode in modes:
            for first in range(0, per_bucket, 2500):
                span = range(first, min(first + 2500, per_bucket))
                auditor.add(batch_claims(generate_batch(name, span, seed, preset, mode)))
                done += len(span)
                if progress is not None:
                    progress(done, per_bucket * len(names) * len(modes))
    return auditor.report()
