from __future__ import annotations

from pathlib import Path

import pytest
import toys

from karat.kernel.errors import BadInput
from karat.kernel.spec import Spec


def test_names_may_stand_alone_or_with_parameters() -> None:
    spec = Spec.parse(toys.spec(explainers=["control/random", {"name": "control/center", "width": 0.1}]))
    assert [c.name for c in spec.explainers] == ["control/random", "control/center"]
    assert spec.explainers[1].parameters == {"width": 0.1}


def test_reading_back_what_was_written_changes_nothing() -> None:
    spec = Spec.parse(toys.spec())
    assert Spec.parse(spec.plain()) == spec


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"explaners": []}, "no spec field is called 'explaners'. Did you mean 'explainers'"),
        ({"karat": 99}, "written for spec version 99"),
        ({"seed": "many"}, "seed: .*got 'many'"),
        ({"models": []}, "models: .*at least 1 item"),
        ({"batch_size": 0}, "batch_size: .*greater than or equal to 1"),
        ({"name": "../evil"}, "name: "),
        ({"protocol": 3}, "protocol"),
        ({"skip": [{"modell": "x"}]}, "skip.0.modell"),
    ],
)
def test_every_problem_names_its_field(changes: dict[str, object], says: str) -> None:
    with pytest.raises(BadInput, match=says):
        Spec.parse(toys.spec(**changes))


def test_missing_fields_are_named() -> None:
    with pytest.raises(BadInput, match="protocol: Field required"):
        Spec.parse({"models": ["a"]})


@pytest.mark.parametrize("data", [None, 3, "text", ["list"]])
def test_a_spec_is_a_mapping(data: object) -> None:
    with pytest.raises(BadInput, match="a spec is a mapping"):
        Spec.parse(data)


def test_yaml_cannot_run_anything(tmp_path: Path) -> None:
    path = tmp_path / "evil.yaml"
    path.write_text("!!python/object/apply:os.system ['true']")
    with pytest.raises(BadInput, match="is not YAML"):
        Spec.read(path)
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadInput):
        Spec.read(path)


def test_overrides_take_yaml_values() -> None:
    spec = Spec.parse(toys.spec()).override(["seed=3", "explainers=[control/edges]"])
    assert spec.seed == 3
    assert [c.name for c in spec.explainers] == ["control/edges"]
    with pytest.raises(BadInput, match="key=value"):
        spec.override(["seed"])
    with pytest.raises(BadInput, match="Did you mean 'seed'"):
        spec.override(["sed=1"])


def test_overrides_lead_into_parts() -> None:
    spec = Spec.parse(toys.spec(explainers=["control/center"]))
    changed = spec.override(["protocol.steps=3", "explainers.0.width=0.2", "protocol.effort.budget=8"])
    assert changed.protocol.parameters == {"steps": 3, "effort": {"budget": 8}}
    assert changed.explainers[0].parameters == {"width": 0.2}
    with pytest.raises(BadInput, match="'1' is no position in a list of 1"):
        spec.override(["explainers.1.width=0.2"])
    with pytest.raises(BadInput, match="nothing below 0"):
        spec.override(["seed.deeper=1"])
