"""Two trackers to copy: a run's events to MLflow and to Weights & Biases. Karat itself depends on neither.

    cd docs/examples && PYTHONPATH=. karat run grid-quick --tracker trackers:ToMlflow

MLflow: `pip install mlflow`, or `mlflow-skinny sqlalchemy alembic`, which is its client alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def _numbers(event: Mapping[str, Any]) -> dict[str, float]:
    return {key: float(value) for key, value in event.items() if key != "time" and type(value) in (int, float)}


class ToMlflow:
    """To the store that MLFLOW_TRACKING_URI names, such as `sqlite:///mlflow.db`; MLflow's own choice if it is not set."""

    def start(self, name: str, settings: Mapping[str, Any]) -> None:
        import mlflow

        mlflow.set_experiment("karat")
        self.run = mlflow.start_run(run_name=name)
        mlflow.log_params({key: str(value)[:250] for key, value in settings.items()})

    def event(self, event: Mapping[str, Any]) -> None:
        import mlflow

        if event["event"] in ("progress", "run_done"):
            mlflow.log_metrics(_numbers(event))

    def end(self) -> None:
        import mlflow

        mlflow.end_run()


class ToWandb:
    """To the project `karat` of whoever is logged in; WANDB_MODE=offline keeps it on this machine."""

    def start(self, name: str, settings: Mapping[str, Any]) -> None:
        import wandb

        self.run = wandb.init(project="karat", name=name, config=dict(settings))

    def event(self, event: Mapping[str, Any]) -> None:
        if event["event"] in ("progress", "run_done"):
            self.run.log(_numbers(event))

    def end(self) -> None:
        self.run.finish()
