"""The pytest plug-in: every name under `karat_check` becomes a test.

    [tool.pytest.ini_options]
    karat_check = ["mine/brightness", "my_package.metrics:Sharpness"]

Names are registered ones, or `package.module:Name`; each is built with its default parameters. For other parameters,
samples or axioms write a test that calls `check_explainer` and its like. Also `pytest --karat-check NAME`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from karat.kernel.errors import KaratError


def pytest_addoption(parser: pytest.Parser) -> None:
    help_text = "put a registered name, or package.module:Name, through Karat's conformance kit"
    parser.addini("karat_check", help_text, type="linelist", default=[])
    parser.addoption("--karat-check", action="append", default=[], metavar="NAME", help=help_text)


def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    names = dict.fromkeys([*config.getini("karat_check"), *config.getoption("--karat-check")])
    items += [Conformance.from_parent(session, name=f"karat_check[{name}]", thing=name) for name in names]


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
        if isinstance(excinfo.value, AssertionError | KaratError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)


def check(name: str) -> None:
    """Put one thing, named as in a spec, through the kit of its kind."""
    from karat.kernel.errors import BadInput
    from karat.kernel.registry import KINDS, build, load_object, registered
    from karat.testing import check_dataset, check_explainer, check_metric, check_model

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
        raise BadInput(f"{name!r} must name a dataset, explainer, metric or model; see `karat ls`.")
    kits[kind](build(kind, name, {}))
