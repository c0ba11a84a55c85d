"""Protocol `semantic-sweep`: tries thresholds on a small sample, and chooses the configuration to hold fixed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from annotated_types import Ge, Gt, Le, MinLen

from karat.kernel.attribution import Attribution
from karat.kernel.card import Card
from karat.kernel.finding import Finding
from karat.kernel.roles import Results
from karat.kernel.row import Outcomes
from karat.probe.session import Session
from karat.protocols.semantic.overlay import Resize, Scale
from karat.protocols.semantic.protocol import Semantic
from karat.protocols.semantic.target import LEAST, Target


@dataclass(frozen=True)
class SemanticSweep:
    """`semantic` at every one of `thresholds`, soft and hard. Methods and layers to try are the spec's explainers.

    A configuration is chosen among those that score at least `coverage` of the predictions: the one whose SSS keeps
    most clearly below that of chance, measured in standard deviations over predictions and averaged over models. (The
    lowest SSS would be the most flattering one, not the most reliable.) It is written as `chosen.yaml` into the run,
    with the controls of the sweep beside it, for the images that the sweep did not choose by (those after its `limit`).
    """

    thresholds: Annotated[tuple[Annotated[float, Ge(0)], ...], MinLen(1)] = tuple(k / 10 for k in range(10))
    coverage: Annotated[float, Gt(0), Le(1)] = 0.95
    scale: Scale = "maximum"
    resize: Resize = "bilinear"
    target: Target = "truth"
    region: Literal["class", "image"] = "class"
    min_confidence: Annotated[float, Ge(0), Le(1)] = LEAST
    roles: tuple[str, ...] = ()
    card: ClassVar[Card] = Card(
        "semantic-sweep", "which threshold, layer and method to fix before models are compared by SSS", "protocol",
        needs=Semantic.card.needs, citation="semscore2025, section 3",
        departures="the paper chooses by eye; here by distance from chance",
    )  # fmt: skip

    def __post_init__(self) -> None:
        assert self.at(self.thresholds[0]).thresholds == self.thresholds  # checks the thresholds themselves

    def at(self, threshold: float, mode: Literal["soft", "hard"] = "soft") -> Semantic:
        """The protocol `semantic` at one of the thresholds."""
        return Semantic(
            threshold, mode, self.scale, self.resize, self.target, self.region, self.min_confidence, self.roles,
            self.thresholds,
        )  # fmt: skip

    @property
    def scores(self) -> tuple[Card, ...]:
        return self.at(self.thresholds[0]).scores

    def targets(self, session: Session) -> list[str]:
        return self.at(self.thresholds[0]).targets(session)

    def score(self, session: Session, attributions: Sequence[Attribution]) -> Mapping[str, Outcomes]:
        return self.at(self.thresholds[0]).score(session, attributions)

    def findings(self, run: Results) -> list[Finding]:
        from karat.protocols.semantic.configuration import curves
        from karat.protocols.semantic.findings import sweep_finding

        return [sweep_finding(curves(run, self.thresholds), self.coverage)]

    def writes(self, run: Results) -> dict[str, str]:
        """`chosen.yaml`: the sweep's models and data under the chosen configuration, ready for `karat run`."""
        import yaml

        from karat.protocols.semantic.configuration import choose_configuration, curves

        chosen = choose_configuration(curves(run, self.thresholds), self.coverage)
        if chosen is None:
            return {}
        used = run.spec.get("limit")
        spec: dict[str, Any] = {key: value for key, value in run.spec.items() if key not in ("limit", "start")}
        if used is not None:
            spec["start"] = int(run.spec.get("start") or 0) + int(used)
        fixed = {name: getattr(self, name) for name in ("scale", "resize", "target", "region", "min_confidence")} | (
            {"roles": list(self.roles)} if self.roles else {}
        )
        spec["name"] = f"{spec['name']}-chosen"
        held_out = "on images that it did not see" if used is not None else "on the images it chose by: set its limit"
        spec["about"] = f"SSS at the configuration that {run.spec['name']} chose, {held_out}"
        spec["protocol"] = {"name": "semantic", "threshold": chosen.threshold, "mode": chosen.mode, **fixed}
        spec["explainers"] = [one for one in spec["explainers"] if self._stays(run, one, chosen.explainer)]
        return {"chosen.yaml": yaml.safe_dump(spec, sort_keys=False, allow_unicode=True)}

    def _stays(self, run: Results, one: Mapping[str, Any], chosen: str) -> bool:
        """The chosen explainer, by its label, and every control."""
        from karat.kernel.registry import build, label
        from karat.results.facts import parts_of

        name = label(build("explainer", one["name"], {key: value for key, value in one.items() if key != "name"}))
        return name == chosen or bool(parts_of(run.manifest)["explainer"][name]["is_control"])
