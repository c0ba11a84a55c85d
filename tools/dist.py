"""Builds the release and tries it as a stranger would: `make dist`.

    python tools/dist.py [--out dist]
    RELEASE_TAG=v1.2.3 python tools/dist.py      # refused unless 1.2.3 is the version

The sdist and the wheel made from it are checked (twine, names and bytes of every file), then the wheel is installed
into an empty environment that borrows the dependencies of the running one, but not this checkout, and the commands
that a newcomer types first are run from an empty folder. Any surprise ends with exit code 1.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tarfile
import tempfile
import time
import venv
import zipfile
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "karat"

# What a newcomer types first, and the file that it must write; without one it must print something.
COMMANDS = (
    (("ls",), None),
    (("run", "grid-quick", "--limit", "4", "--fail-on-error", "0.05"), "runs/grid-quick/findings.json"),
    (("report",), "runs/grid-quick/report/index.html"),
    (("paper", "000"), None),
)


class Refused(Exception):
    """The release is not what it must be."""


def call(command: Sequence[str], cwd: Path = ROOT, env: dict[str, str] | None = None) -> str:
    """The output of a command that must succeed; all that it printed is shown where it does not."""
    done = subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=env)
    if done.returncode:
        raise Refused(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def one(folder: Path, pattern: str) -> Path:
    files = sorted(folder.glob(pattern))
    if len(files) != 1:
        raise Refused(f"expected one {pattern} in {folder}, got {[file.name for file in files]}.")
    return files[0]


def wheel_files(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def check_wheel(files: dict[str, bytes], tracked: Iterable[str]) -> None:
    """Every tracked file of the package, byte by byte, its metadata and nothing else: no tests, no docs, no litter."""
    expected = {str(PurePosixPath(name).relative_to("src")): ROOT / name for name in tracked}
    packed = {name for name in files if not name.split("/")[0].endswith(".dist-info")}
    missing, extra = sorted(expected.keys() - packed), sorted(packed - expected.keys())
    altered = sorted(name for name in expected.keys() & packed if files[name] != expected[name].read_bytes())
    for names, fault in ((missing, "lacks"), (extra, "has, but git does not,"), (altered, "has altered")):
        if names:
            raise Refused(f"the wheel {fault} {len(names)} files: {', '.join(names[:8])}")


def check_sdist(sdist: Path, tracked: Iterable[str]) -> None:
    """Every tracked file and PKG-INFO, nothing else."""
    with tarfile.open(sdist) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    missing, extra = sorted(set(tracked) - packed), sorted(packed - set(tracked) - {"PKG-INFO"})
    if missing or extra:
        raise Refused(f"the sdist lacks {missing[:8]} and has beyond git {extra[:8]} ({len(missing)}, {len(extra)}).")


def print_sizes(wheel: Path) -> None:
    """Files, bytes and bytes in the wheel by folder, the largest first; folders under 1 % in one line."""
    sizes: dict[str, Counter[str]] = {}
    with zipfile.ZipFile(wheel) as archive:
        for entry in archive.infolist():
            folder = "/".join(entry.filename.split("/")[:-1][:3])
            size = Counter(files=1, plain=entry.file_size, packed=entry.compress_size)
            sizes[folder] = sizes.get(folder, Counter()) + size
    total = sum(sizes.values(), Counter[str]())
    large = {folder: size for folder, size in sizes.items() if size["packed"] >= 0.01 * total["packed"]}
    rows = sorted(large.items(), key=lambda row: -row[1]["packed"])
    rows.append((f"{len(sizes) - len(large)} others", total - sum(large.values(), Counter[str]())))
    print(f"\n{wheel.name}, {wheel.stat().st_size / 1e6:.1f} MB\n{'folder':<28}{'files':>6}{'MB':>8}{'in wheel':>10}")
    for folder, size in rows:
        print(f"{folder:<28}{size['files']:>6}{size['plain'] / 1e6:>8.2f}{size['packed'] / 1e6:>10.2f}")


def install(wheel: Path, place: Path) -> Path:
    """An environment with the wheel alone; the dependencies are those of the running environment.

    Folders that a .pth file names are put on the path, but .pth files in them are not read: so an editable install of
    this checkout, which is such a file, does not come along.
    """
    venv.create(place, with_pip=False, symlinks=True)
    python = place / "bin" / "python"
    script = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = Path(call([str(python), "-c", script]).strip())
    borrowed = [entry for entry in sys.path if Path(entry).name in ("site-packages", "dist-packages")]
    (packages / "borrowed.pth").write_text("".join(f"{folder}\n" for folder in borrowed))
    call([sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps", "--no-index",
          "--no-compile", "--ignore-installed", str(wheel)])  # fmt: skip
    return place / "bin"


def clean_environment(home: Path) -> dict[str, str]:
    """No PYTHONPATH, no settings and no cache of the user's."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL", "TMPDIR") if name in os.environ}
    return {**kept, "HOME": str(home), "XDG_CACHE_HOME": str(home / ".cache"), "PYTHONNOUSERSITE": "1"}


def check_origin(python: Path, place: Path, folder: Path, environment: dict[str, str]) -> str:
    """The version of the package that is imported, which must be the one in the new environment."""
    script = f"import {PACKAGE}, sys; print({PACKAGE}.__file__, {PACKAGE}.__version__, *sys.path, sep='\\n')"
    origin, version, *path = call([str(python), "-c", script], cwd=folder, env=environment).splitlines()
    if not Path(origin).is_relative_to(place):
        raise Refused(f"{PACKAGE} is imported from {origin}, not from the installed wheel.")
    if any(entry and Path(entry).is_relative_to(ROOT / "src") for entry in path):
        raise Refused(f"the checkout is on the path of the new environment: {path}")
    return version


def try_commands(binaries: Path, folder: Path, environment: dict[str, str]) -> None:
    print(f"\n{'command, from an empty folder':<56}{'seconds':>8}{'lines':>7}")
    for arguments, result in COMMANDS:
        title, start = f"{PACKAGE} {' '.join(arguments)}", time.perf_counter()
        print(f"{title:<56}", end="", flush=True)
        output = call([str(binaries / PACKAGE), *arguments], cwd=folder, env=environment)
        print(f"{time.perf_counter() - start:>8.1f}{len(output.splitlines()):>7}")
        if result is None and not output.strip():
            raise Refused(f"{title} printed nothing.")
        if result is not None and not ((folder / result).is_file() and (folder / result).stat().st_size):
            raise Refused(f"{title} did not write {result}.")


def check_tag(tag: str, version: str) -> None:
    if tag != f"v{version}":
        raise Refused(f"the tag is {tag}, but the version is {version}: tag v{version}, or change __version__.")


def release(out: Path, tag: str | None) -> None:
    for old in (*out.glob(f"{PACKAGE}-*.whl"), *out.glob(f"{PACKAGE}-*.tar.gz")):
        old.unlink()
    tracked = call(["git", "ls-files", "-z"]).rstrip("\0").split("\0")
    print(f"building into {out} ...", flush=True)
    # The wheel is made from the sdist, with the tools of the running environment, so that nothing is fetched.
    call([sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(ROOT)])
    sdist, wheel = one(out, f"{PACKAGE}-*.tar.gz"), one(out, f"{PACKAGE}-*.whl")
    version = wheel.name.split("-")[1]
    if tag is not None:
        check_tag(tag, version)
    print(call([sys.executable, "-m", "twine", "--no-color", "check", "--strict", str(sdist), str(wheel)]).strip())
    files = wheel_files(wheel)
    check_sdist(sdist, tracked)
    check_wheel(files, [name for name in tracked if name.startswith(f"src/{PACKAGE}/")])
    print(f"{len(files)} files in the wheel, each as in git; the sdist ({sdist.stat().st_size / 1e6:.1f} MB) makes it.")
    print_sizes(wheel)
    with tempfile.TemporaryDirectory(prefix="karat-dist-") as name:
        place, folder, home = (Path(name, part).resolve() for part in ("environment", "empty", "home"))
        folder.mkdir()
        home.mkdir()
        binaries = install(wheel, place)
        environment = clean_environment(home)
        inside = check_origin(binaries / "python", place, folder, environment)
        stated = call([str(binaries / PACKAGE), "--version"], cwd=folder, env=environment).split()[-1]
        if not stated == inside == version:
            raise Refused(f"--version says {stated}, __version__ is {inside}, the wheel is {wheel.name}.")
        try_commands(binaries, folder, environment)
    print(f"\n{PACKAGE} {version} is ready in {out}.")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="where sdist and wheel go")
    try:
        release(parser.parse_args().out.resolve(), os.environ.get("RELEASE_TAG"))
    except Refused as error:
        print(f"make dist: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
