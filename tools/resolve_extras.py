"""Proves that every extra of pyproject.toml resolves to wheels, for every Python that Karat is for. Needs the network.

    python tools/resolve_extras.py [--python 3.11 3.12 3.13] [--platform linux] [--extra vision ...]

Nothing is downloaded but metadata, and no other Python has to be installed. The resolver is uv: pip's own
`--python-version` still reads markers (`python_version < '3.12'`) as the Python that runs pip, and so proves nothing
about the others. Where wheels alone do not suffice, the packages that exist only as source are named. Exit code 1 where
there is such a package beyond those that are known to be harmless, or where versions conflict.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTHONS = ("3.11", "3.12", "3.13")
CORE = "(core)"  # the dependencies without any extra
HARMLESS = {"grad-cam": "plain Python, which installs anywhere; a peer in tests"}


@dataclass(frozen=True)
class Resolved:
    """How many packages an extra needs, those of them that have no wheel, or why nothing fits together."""

    packages: int
    only_source: tuple[str, ...] = ()
    conflict: str = ""

    @property
    def cell(self) -> str:
        if self.conflict:
            return "conflict"
        return f"{len(self.only_source)} without wheel" if self.only_source else f"{self.packages} wheels"


def extras(pyproject: Path) -> list[str]:
    return [CORE, *tomllib.loads(pyproject.read_text())["project"]["optional-dependencies"]]


def resolve(pyproject: Path, extra: str, python: str, platform: str) -> Resolved:
    """With wheels alone where that is possible, else with sources too, so as to name them."""
    command = ["uv", "pip", "compile", str(pyproject), "--quiet", "--no-header", "--format", "pylock.toml",
               "--python-version", python, "--python-platform", platform]  # fmt: skip
    command += [] if extra == CORE else ["--extra", extra]
    wheels = subprocess.run([*command, "--only-binary", ":all:"], capture_output=True, text=True)
    if wheels.returncode == 0:
        return read_lock(wheels.stdout)
    both = subprocess.run(command, capture_output=True, text=True)
    return read_lock(both.stdout) if both.returncode == 0 else Resolved(0, conflict=wheels.stderr.strip())


def read_lock(lock: str) -> Resolved:
    """From a pylock.toml, which lists of every package the files that suit the Python and the platform.

    >>> read_lock('[[packages]]\\nname = "a"\\nversion = "1"\\n[[packages.wheels]]\\nurl = "a-1-py3-none-any.whl"')
    Resolved(packages=1, only_source=(), conflict='')
    >>> read_lock('[[packages]]\\nname = "b"\\nversion = "2"\\n[packages.sdist]\\nurl = "b-2.tar.gz"').only_source
    ('b 2',)
    """
    packages = tomllib.loads(lock).get("packages", [])
    return Resolved(len(packages), tuple(f"{p['name']} {p['version']}" for p in packages if not p.get("wheels")))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", nargs="+", default=PYTHONS)
    parser.add_argument("--platform", default="linux", help="as uv calls it: linux, macos, windows, ...")
    parser.add_argument("--extra", nargs="+", help="all of them, and the core, if none is named")
    parser.add_argument("--pyproject", type=Path, default=ROOT / "pyproject.toml")
    wanted = parser.parse_args()
    if shutil.which("uv") is None:
        parser.error("uv is not on the path: pip install uv")
    print(f"{wanted.platform:<12}" + "".join(f"{python:>20}" for python in wanted.python), flush=True)
    notes: dict[str, list[str]] = {}
    faults = 0
    for extra in wanted.extra or extras(wanted.pyproject):
        print(f"{extra:<12}", end="", flush=True)
        for python in wanted.python:
            resolved = resolve(wanted.pyproject, extra, python, wanted.platform)
            print(f"{resolved.cell:>20}", end="", flush=True)
            for package in resolved.only_source:
                name = package.split()[0]
                faults += name not in HARMLESS
                reason = f" ({HARMLESS[name]})" if name in HARMLESS else ""
                notes.setdefault(f"only as source: {package}{reason}", []).append(f"{extra} on {python}")
            if resolved.conflict:
                faults += 1
                notes.setdefault(resolved.conflict, []).append(f"{extra} on {python}")
        print()
    for note, places in notes.items():
        print(f"\n{note}\n    in {', '.join(places)}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
