"""What a protocol concludes is written with the run and shown on the page, as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import toys

from assay.engine.run import run as carry_out
from assay.kernel.finding import Finding
from assay.kernel.spec import Spec
from assay.protocols.localization import Localization
from assay.report import report
from assay.results.run import Run


@dataclass(frozen=True)
class Concludes(Localization):
    """Protocol `localization` with an opinion."""

    card = Localization.card
    fails: bool = False

    def findings(self, run: Run) -> Sequence[Finding]:
        if self.fails:
            raise ZeroDivisionError("no opinion")
        rows = len(run.scores())
        return [Finding("Counted <b>rows</b>", "about", (f"There are {rows} rows.",), ("n",), ((rows,),))]


def test_findings_come_back_as_they_were(tmp_path: Path) -> None:
    finished = carry_out(Spec.parse(toys.spec(protocol=f"{__name__}:Concludes")), tmp_path, workers=0)
    [finding] = finished.findings()
    assert finding.sentences == ("There are 100 rows.",)
    assert finding.rows == ((100,),)
    page = report([tmp_path], tmp_path / "page").read_text()
    assert "There are 100 rows." in page
    assert "Counted <b>rows</b>" not in page  # titles travel as data and are shown as text (tests/report)


def test_a_summary_that_fails_leaves_the_rows_and_a_warning(tmp_path: Path) -> None:
    spec = Spec.parse(toys.spec(protocol={"name": f"{__name__}:Concludes", "fails": True}))
    finished = carry_out(spec, tmp_path, workers=0)
    assert finished.findings() == []
    assert len(finished.scores()) == 100
    assert "no findings: ZeroDivisionError: no opinion" in [e.get("text") for e in finished.events()]


def test_protocols_without_findings_have_none(tmp_path: Path) -> None:
    assert carry_out(Spec.parse(toys.spec()), tmp_path, workers=0).findings() == []
