"""What is wrong with a spec is said in one go, from its fields to the parameters of its parts."""

from __future__ import annotations

from pathlib import Path

import pytest
import toys
import yaml

from karat.engine.resolve import read_spec, resolve
from karat.kernel.errors import Faults
from karat.kernel.registry import label
from karat.kernel.spec import Spec

UNSOUND = {
    "protocol": "gird",
    "datasets": [{"name": "grid", "per_bukket": 3}],
    "explainers": ["cam/gradcamm", {"name": "perturbation/rise", "masks": "many", "celsl": 3}],
    "sed": 3,
    "batch_size": 0,
}


def written(folder: Path, data: object) -> Path:
    path = folder / "spec.yaml"
    path.write_text(yaml.safe_dump(data))
    return path


def test_all_faults_are_listed_with_what_was_meant(tmp_path: Path) -> None:
    with pytest.raises(Faults) as raised:
        read_spec(written(tmp_path, UNSOUND))
    for fault in (
        "no spec field is called 'sed'. Did you mean 'seed'?",
        "models: Field required.",
        "batch_size: Input should be greater than or equal to 1; got 0.",
        "no protocol is called 'gird'. Did you mean 'grid'?",
        "grid: no parameter of grid is called 'per_bukket'. Did you mean 'per_bucket'",
        "no explainer is called 'cam/gradcamm'. Did you mean 'cam/gradcam'",
        "perturbation/rise: no parameter of perturbation/rise is called 'celsl'. Did you mean 'cells'?",
        "perturbation/rise: masks: ",
    ):
        assert sum(one.startswith(fault) for one in raised.value.faults) == 1, fault
    assert len(raised.value.faults) == 8
    assert "has 8 faults:\n  - " in str(raised.value)


def test_one_fault_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(Faults) as raised:
        read_spec(written(tmp_path, toys.spec(protocol="gird")))
    assert len(raised.value.faults) == 1
    assert "\n" not in str(raised.value)


def test_settings_are_checked_with_the_spec(tmp_path: Path) -> None:
    path = written(tmp_path, toys.spec())
    assert read_spec(path, ["seed=3"]).seed == 3
    with pytest.raises(Faults, match="no model is called 'nonsense'"):
        read_spec(path, ["models=[nonsense]"])


def test_a_sound_spec_has_its_parts_and_the_controls_of_its_protocol() -> None:
    parts = resolve(Spec.parse(toys.spec(protocol="compass")))
    assert {"control/random", "control/uniform"} <= {explainer.card.name for explainer in parts.explainers}


@pytest.mark.parametrize("unsound", [{"models": {"name": 3}}, {"explainers": [[1]]}, {"datasets": None}])
def test_what_is_no_part_at_all_is_a_fault_of_its_field(tmp_path: Path, unsound: dict[str, object]) -> None:
    with pytest.raises(Faults, match=next(iter(unsound))):
        read_spec(written(tmp_path, toys.spec(**unsound)))


def of_absence(explainers: list[object], absence: object) -> list[str]:
    data = {"protocol": "grid", "models": ["gridprog.pure"], "datasets": ["grid"], "explainers": explainers}
    return [label(explainer) for explainer in resolve(Spec.parse({**data, "absence": absence})).explainers]


def test_absence_crosses_what_hides_features_and_nothing_else() -> None:
    named = {"name": "perturbation/occlusion", "absence": "black"}  # it has said what it wants
    background = "modality/intershap"  # has the parameter, and by default no use for it
    hides = {"name": "modality/intershap", "absent": "absence"}
    labels = of_absence(["control/random", "perturbation/leave_one_out", named, background], ["white", "blur", "white"])
    assert labels == [
        "control/random", "perturbation/leave_one_out(absence=white)", "perturbation/leave_one_out",
        "perturbation/occlusion(absence=black)", "modality/intershap",
    ]  # fmt: skip
    assert len(of_absence([hides], ["white", "grey"])) == 2
    assert of_absence(["perturbation/leave_one_out"], "grey") == ["perturbation/leave_one_out(absence=grey)"]
    assert of_absence(["perturbation/leave_one_out"], []) == ["perturbation/leave_one_out"]


def test_an_absence_that_nobody_has_is_refused() -> None:
    with pytest.raises(Faults, match=r"leave_one_out: absence: .*got 'purple'"):
        of_absence(["perturbation/leave_one_out"], ["purple"])
    with pytest.raises(Faults, match="no explainer of this spec hides features"):
        of_absence(["control/random"], ["white"])
