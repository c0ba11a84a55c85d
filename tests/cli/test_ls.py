"""`karat ls`: what it reads without a YAML parser."""

from __future__ import annotations

import pytest
import yaml

from karat.cli.console import shipped_specs
from karat.cli.ls import _about


@pytest.mark.parametrize("name", list(shipped_specs()))
def test_about_is_what_yaml_reads(name: str) -> None:
    text = shipped_specs()[name].read_text()
    assert _about(text) == yaml.safe_load(text).get("about", "")
