"""What a protocol concludes is written with the run and shown on the page, as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import toys

from karat.engine.run import run as carry_out
from karat.kernel.claim import Claim, Comparison
from karat.kernel.finding import Finding
from karat.kernel.spec import Spec
from karat.protocols.localization import Localization
from karat.report import report
from karat.results.run import Run


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


@dataclass(frozen=True)
class Disputed(Concludes):
    """It has a paper too, whose comparison reads what was found."""

    card = replace(Concludes.card, paper="999")

    def findings(self, run: Run) -> Sequence[Finding]:
        [found] = super().findings(run)
        return [replace(found, cautions=("The twin is a <i>fraud</i>.",))]

    def paper(self, run: Run) -> Comparison:
        [kept] = run.findings()
        claims = [
            Claim("rows", "Table 1", "99", str(kept.rows[0][0]), "disagree"),
            Claim("x", "", "", "", "cannot tell"),
        ]
        return Comparison(tuple(claims), (Finding("Table 1", "", (), ("n",), ((99,),)),))


def test_claims_of_the_paper_and_cautions_go_to_the_page(tmp_path: Path) -> None:
    finished = carry_out(Spec.parse(toys.spec(protocol=f"{__name__}:Disputed")), tmp_path, workers=0)
    own, claims, table = finished.findings()
    assert claims.section == table.section == "Beside paper 999"
    assert claims.sentences == ("2 claims: 0 agree, 1 disagree, 1 cannot tell.",)
    assert claims.rows[0] == ("disagree", "rows", "Table 1", "99", "100", "")
    assert table.rows == ((99,),)
    assert own.section == ""
    page = report([tmp_path], tmp_path / "page").read_text()
    assert "The twin is a &lt;i&gt;fraud&lt;/i&gt;." in page


def test_protocols_without_findings_have_none(tmp_path: Path) -> None:
    assert carry_out(Spec.parse(toys.spec()), tmp_path, workers=0).findings() == []
