"""The pytest plug-in: every name under `assay_check` becomes a test.

    [tool.pytest.ini_options]
    assay_check = ["mine/brightness", "my_package.metrics:Sharpness"]

Names are registered ones, or `package.module:Name`; each is built with its default parameters. For other parameters,
samples or axioms write a test that calls `check_explainer` and its like. Also `pytest --assay-check NAME`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assay.kernel.errors import AssayError


def pytest_addoption(parser: pytest.Parser) -> None:
    help_text = "put a registered name, or package.module:Name, through Assay's conformance kit"
    parser.addini("assay_check", help_text, type="linelist", default=[])
    parser.addoption("--assay-check", action="append", default=[], metavar="NAME", help=help_text)


def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    names = dict.fromkeys([*config.getini("assay_check"), *config.getoption("--assay-check")])
    items += [Conformance.from_parent(session, name=f"assay_check[{name}]", thing=name) for name in names]


class Conformance(pytest.Item):
    """One thing through its kit."""

    def __init__(self, *, thing: str, **given: Any) -> None:
        super().__init__(**given)
        self.thing = thing

    def runtest(self) -> None:
        check(self.thing)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        return self.path, None, self.name

    def repr_failure(self, excinfo: Any, style: Any = None) -> Any:
        """Broken laws and plain mistakes as they are; a traceback only for what nobody expected."""
        if isinstance(excinfo.value, AssertionError | AssayError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)


def check(name: str) -> None:
    """Put one thing, named as in a spec, through the kit of its kind."""
    from assay.kernel.errors import BadInput
    from assay.kernel.registry import KINDS, build, load_object, registered
    from assay.testing import check_dataset, check_explainer, check_metric, check_model

    kits: dict[str, Callable[[Any], None]] = {
        "dataset": check_dataset,
        "explainer": check_explainer,
        "metric": check_metric,
        "model": check_model,
    }
    if ":" in name:
        card = getattr(load_object(name), "card", None)
        kind = card.kind if card else None
    else:
        kind = next((kind for kind in KINDS if name in registered(kind)), None)
    if kind not in kits:
        raise BadInput(f"{name!r} must name a dataset, explainer, metric or model; see `assay ls`.")
    kits[kind](build(kind, name, {}))
