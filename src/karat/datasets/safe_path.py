"""`within(folder, name)`: the file that an annotation names, which must lie under the folder it is looked for in."""

from __future__ import annotations

from pathlib import Path, PurePosixPath, PureWindowsPath

from karat.kernel.errors import BadInput


def within(folder: str | Path, name: object) -> Path:
    """Names in annotation files come from outside: one that leads out of its folder is refused.

    >>> str(within("images", "val2014/a.jpg"))
    'images/val2014/a.jpg'
    >>> within("images", "../secret.jpg")
    Traceback (most recent call last):
    karat.kernel.errors.BadInput: the file name '../secret.jpg' leads out of images; file names must stay under it.
    """
    text = str(name)
    parts = {*PurePosixPath(text).parts, *PureWindowsPath(text).parts}
    if ".." in parts or "\0" in text or PurePosixPath(text).is_absolute() or PureWindowsPath(text).anchor:
        raise BadInput(f"the file name {text!r} leads out of {folder}; file names must stay under it.")
    return Path(folder) / text
