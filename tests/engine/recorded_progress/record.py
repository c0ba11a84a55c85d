"""Write down what the engine hears during `karat demo`, tick by tick: the logs that test_progress.py replays.

    python tests/engine/recorded_progress/record.py quiet
    python tests/engine/recorded_progress/record.py busy --burners 2

The file is named after what the machine was like; its first line says how many cores other processes took meanwhile.
Each further line has its moment (`at`, monotonic seconds) and one of: `spec` with its jobs, `tick` (job, explainer of
the job, samples, seconds), `done` and `again` (job), `end` (spec), `page`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import karat.engine.run
from karat.cli.demo import demo
from karat.engine.executors.job import Done
from karat.engine.log import Log
from karat.kernel.cell import Job

began = time.monotonic()
lines: list[dict[str, Any]] = []


def note(**fields: Any) -> None:
    lines.append({"at": round(time.monotonic() - began, 3), **fields})


class RecordingLog(Log):
    def start(self, cells_done: int) -> None:
        jobs = [
            {"model": job.cells[0].model, "dataset": job.cells[0].dataset, "start": job.start, "stop": job.stop}
            | {"explainers": [cell.explainer for cell in job.cells]}
            for job in self.jobs
        ]
        note(spec=self.planned.spec.name, workers=self.workers, jobs=jobs)
        super().start(cells_done)

    def tick(self, job: Job, done: Done) -> None:
        explainer, samples, seconds = done
        note(tick=[self._position(job), job.explainers.index(explainer), samples, round(seconds, 4)])
        super().tick(job, done)

    def retry(self, job: Job, reason: str) -> None:
        note(again=self._position(job))
        super().retry(job, reason)

    def done(self, job: Job, value: dict[str, Any]) -> None:
        note(done=self._position(job))
        super().done(job, value)

    def end(self) -> None:
        note(end=self.planned.spec.name)
        super().end()

    def _position(self, job: Job) -> int:
        return self.progress.job_of[job.cells[0].id]


def busy_seconds() -> float:
    """Of all cores together, whoever kept them busy."""
    user, nice, system, _, _, interrupts, soft, *_ = map(int, Path("/proc/stat").read_text().split("\n")[0].split()[1:])
    return (user + nice + system + interrupts + soft) / os.sysconf("SC_CLK_TCK")


def own_seconds() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name")
    parser.add_argument("--burners", type=int, default=0, help="processes that do nothing but keep a core busy")
    given = parser.parse_args()
    burners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(given.burners)]
    karat.engine.run.Log = RecordingLog  # type: ignore[misc]  # the name that `run` looks up
    load, busy, own = os.getloadavg()[0], busy_seconds(), own_seconds()
    try:
        with tempfile.TemporaryDirectory() as folder:
            demo(out=Path(folder), workers=None)
    finally:
        note(page=True)
        busy, own = busy_seconds() - busy, own_seconds() - own
        for burner in burners:
            burner.kill()
    others = round((busy - own) / lines[-1]["at"], 2)
    about = {"cores": os.cpu_count(), "burners": given.burners, "load_before": load, "cores_of_others": others}
    path = Path(__file__).parent / f"{given.name}.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in [about, *lines]))
    print(path, about)


if __name__ == "__main__":
    main()
