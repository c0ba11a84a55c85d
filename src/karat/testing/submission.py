"""Submissions to a sealed test: a plug-in explainer with its spec in one zip, checked by one piece of code everywhere.

`pack` writes it, `check` says everything that is wrong with it; a host runs the same `check`. The plug-in's code runs
in a process of its own, with a time limit.
"""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from karat.kernel.errors import BadInput, KaratError
from karat.kernel.spec import Spec

SPEC = "spec.yaml"
_SUFFIXES = (".py", ".yaml", ".json", ".toml", ".txt", ".md", ".safetensors", ".csv")
_LARGEST = 200 * 2**20  # bytes unpacked
_MOST = 500  # files
_SECONDS = 600
_FREE = (
    "explainers",
    "name",
    "about",
    "shard_size",
    "batch_size",
    "keep_maps",
)  # of a spec: what a submitter may choose


def pack(source: str | Path, spec: str | Path, out: str | Path, announced: Mapping[str, Any] | None = None) -> Path:
    """Pack a module or package with its spec, and check it as the host will.

    Args:
        source: a Python file, or the folder of a package.
        spec: YAML that names the explainers as `module:Name`.
        out: the zip to write.
        announced: the spec of the sealed test, if there is one.

    Returns:
        The path of the zip. Raises BadInput with every refusal if the host would not take it.
    """
    source, out = Path(source), Path(out)
    if not source.exists():
        raise BadInput(f"no plug-in at {source}: name a Python file, or the folder of a package.")
    paths = [source] if source.is_file() else sorted(p for p in source.rglob("*") if p.is_file() and _wanted(p))
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in paths:
            archive.write(path, path.relative_to(source.parent).as_posix())
        archive.writestr(SPEC, Path(spec).read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as place:
        draft = Path(place, "submission.zip")
        draft.write_bytes(buffer.getvalue())
        if refusals := check(draft, announced):
            raise BadInput("the host would refuse this submission:\n  - " + "\n  - ".join(refusals))
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_bytes(buffer.getvalue())
    return out


def check(path: str | Path, announced: Mapping[str, Any] | None = None) -> list[str]:
    """Every reason to refuse a submission; none: it may be run.

    Args:
        path: the zip.
        announced: the spec of the sealed test; the submission may differ from it in its explainers alone.

    Returns:
        Sentences, each saying what was expected, what was got and what to do.
    """
    try:
        archive = zipfile.ZipFile(path)
    except (zipfile.BadZipFile, OSError) as error:
        return [f"{path} is no zip that can be read ({error}). `karat board submit` makes one."]
    with archive, tempfile.TemporaryDirectory(prefix="karat-submission-") as place:
        refusals = _files(archive)
        if refusals:
            return refusals
        for one in archive.infolist():  # names and sizes were checked above
            if not one.is_dir():
                file = Path(place, one.filename)
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(archive.read(one))
        try:
            data = yaml.safe_load(Path(place, SPEC).read_text(encoding="utf-8"))
            spec = Spec.parse(data, SPEC)
        except (KaratError, yaml.YAMLError, UnicodeDecodeError) as error:
            return [f"{SPEC} cannot be read: {error}"]
        refusals = _spec(spec, place, announced)
        return refusals or _laws(place, [one.model_dump() for one in spec.explainers if ":" in one.name])


def _wanted(path: Path) -> bool:
    return "__pycache__" not in path.parts and not path.name.startswith(".")


def _files(archive: zipfile.ZipFile) -> list[str]:
    members = archive.infolist()
    refusals = []
    if len(members) > _MOST:
        refusals.append(f"{len(members)} files; at most {_MOST} are taken. Leave out what the explainer does not need.")
    if (size := sum(one.file_size for one in members)) > _LARGEST:
        refusals.append(f"{size / 2**20:.0f} MB unpacked; at most {_LARGEST >> 20} MB are taken.")
    for one in members:
        name = PurePosixPath(one.filename)
        if name.is_absolute() or ".." in name.parts or "\\" in one.filename:
            refusals.append(f"{one.filename!r} leads out of the folder. Pack with `karat board submit`.")
        elif (one.external_attr >> 16) & 0o170000 == 0o120000:
            refusals.append(f"{one.filename} is a link; put the file itself there.")
        elif not one.is_dir() and name.suffix not in _SUFFIXES:
            refusals.append(
                f"{one.filename}: files of this kind are not taken (weights go into .safetensors); those that are: "
                f"{', '.join(_SUFFIXES)}."
            )
    if SPEC not in archive.namelist():
        refusals.append(f"there is no {SPEC} at the top. `karat board submit PLUGIN --spec SPEC` puts one there.")
    return refusals


def _spec(spec: Spec, place: str, announced: Mapping[str, Any] | None) -> list[str]:
    refusals = []
    own = [one.name for one in spec.explainers if ":" in one.name]
    if not own:
        refusals.append("the spec names no explainer of the plug-in. Name it as `module:Class` under explainers.")
    for name in own:
        top = name.partition(":")[0].partition(".")[0]
        if not (Path(place, f"{top}.py").is_file() or Path(place, top).is_dir()):
            refusals.append(f"explainer {name}: the submission has no module {top!r}. Pack its file or folder.")
    for kind in ("models", "datasets"):
        refusals += [
            f"{kind}: {one.name} is code of your own; a submission may bring explainers alone."
            for one in (spec.models if kind == "models" else spec.datasets) if ":" in one.name
        ]  # fmt: skip
    if ":" in spec.protocol.name:
        refusals.append(f"protocol: {spec.protocol.name} is code of your own; a submission may bring explainers alone.")
    if announced is not None:
        mine, theirs = spec.plain(), Spec.parse(dict(announced), "the sealed test").plain()
        refusals += [
            f"{key}: the sealed test says {json.dumps(theirs[key])}, the submission {json.dumps(mine[key])}. Take it "
            "over as it is."
            for key in theirs if key not in _FREE and mine[key] != theirs[key]
        ]  # fmt: skip
    return refusals


def _laws(place: str, explainers: Sequence[Mapping[str, Any]]) -> list[str]:
    """What the explainers break, found in a process of its own."""
    command = [sys.executable, "-m", "karat.testing.submission", place, json.dumps(list(explainers))]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, cwd=place, check=False)
    except subprocess.TimeoutExpired:
        return [f"the checks took more than {_SECONDS} s. Explaining a few small pictures must take seconds."]
    if done.returncode != 0:
        last = (done.stderr.strip() or f"exit code {done.returncode}").splitlines()[-1]
        return [f"the plug-in ended the checking process: {last}"]
    refusals: list[str] = json.loads(done.stdout.splitlines()[-1])
    return refusals


def broken_laws(explainers: Sequence[Mapping[str, Any]]) -> list[str]:
    """Laws that explainers of this process break, one sentence each."""
    from karat.kernel.registry import build
    from karat.testing.explainer import explainer_laws

    refusals = []
    for one in explainers:
        name = str(one["name"])
        try:
            explainer = build("explainer", name, {key: value for key, value in one.items() if key != "name"})
            laws = explainer_laws(explainer)
        except Exception as error:  # another's code: whatever it raises is a refusal, not a crash
            refusals.append(f"explainer {name} cannot be built or run: {type(error).__name__}: {error}")
            continue
        refusals += [f"explainer {name} breaks a law: {law.name}: {law.found}" for law in laws if not law.holds]
    return refusals


if __name__ == "__main__":
    sys.path.insert(0, sys.argv[1])
    print(json.dumps(broken_laws(json.loads(sys.argv[2]))))
