"""Errors that say what was expected, what was got and what to do. The CLI prints them as one line, exit code 2."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

REGISTERED = ("dataset", "model", "explainer", "metric", "protocol")


class KaratError(Exception):
    """Base of everything that is the user's to mend."""

    exit_code = 2


class BadInput(KaratError):
    """A value, file or array is not what it must be."""


class Faults(BadInput):
    """Everything that is wrong with one thing, said together: nobody wants to mend a spec one run at a time."""

    def __init__(self, source: str, faults: Sequence[str]) -> None:
        self.source, self.faults = source, tuple(dict.fromkeys(faults))
        if len(self.faults) == 1:
            super().__init__(f"{source}: {self.faults[0]}")
        else:
            listed = "".join(f"\n  - {fault}" for fault in self.faults)
            super().__init__(f"{source} has {len(self.faults)} faults:{listed}")


class UnknownName(KaratError):
    """A name that nothing is registered under."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        names = sorted(known)
        close = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
        short = [full for full in names if full.rsplit("/", 1)[-1] == name]
        near = list(dict.fromkeys(short + close))
        hint = (
            f"Did you mean {' or '.join(repr(n) for n in near)}?"
            if near
            else f"There are: {', '.join(names[:12])}{' and others' if len(names) > 12 else ''}."
        )
        own = " Your own goes in as 'package.module:Name'." if kind in REGISTERED else ""
        super().__init__(f"no {kind} is called {name!r}. {hint}{own}")


class CapabilityMissing(KaratError):
    """An explainer asks for what its model does not offer."""

    def __init__(
        self, explainer: str, missing: Iterable[str], model: str, offers: Iterable[str], hint: str = ""
    ) -> None:
        offered = ", ".join(sorted(offers)) or "nothing"
        super().__init__(
            f"{explainer} needs {' and '.join(sorted(missing))}; {model!r} offers {offered}. {hint}".rstrip()
        )


class ExtraMissing(KaratError):
    """A feature needs a package that is not installed."""

    def __init__(self, feature: str, package: str, extra: str) -> None:
        super().__init__(
            f"{feature} needs the package {package!r}, which is not installed: pip install 'karat[{extra}]'."
        )


class Unavailable(KaratError):
    """What a model stands on has stopped (a server, a budget). No sample is to blame: the run ends, to go on later."""


class RunBusy(KaratError):
    """Another process is writing to this run directory."""


class RunFailed(KaratError):
    """More cells failed than `--fail-on-error` allows. The rows that succeeded are on disk."""

    exit_code = 1
