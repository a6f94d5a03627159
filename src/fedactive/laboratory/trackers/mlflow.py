"""MLflow: a run of the experiment `fedactive`, on the server that MLFLOW_TRACKING_URI names."""

from __future__ import annotations

from typing import final

from fedactive.experiment import Experiment
from fedactive.laboratory.tracker import Tracker, register, settings_of

EXPERIMENT = "fedactive"
TAG = "fedactive.run"  # the name by which a resumed run is found again


@final
@register
class MLflow(Tracker):
    name = "mlflow"
    summary = "MLflow; MLFLOW_TRACKING_URI says where"
    package = "mlflow"

    def open(self, experiment: Experiment, step: int) -> None:
        from mlflow import MlflowClient

        self.client = MlflowClient()
        found = self.client.get_experiment_by_name(EXPERIMENT)
        there = found.experiment_id if found else self.client.create_experiment(EXPERIMENT)
        earlier = self.client.search_runs([there], filter_string=f"tags.`{TAG}` = '{experiment.name}'")
        if earlier:
            self.run = earlier[0].info.run_id
            self.client.update_run(self.run, status="RUNNING")
            return
        made = self.client.create_run(there, run_name=experiment.name, tags={TAG: experiment.name})
        self.run = made.info.run_id
        for name, value in settings_of(experiment).items():
            self.client.log_param(self.run, name, value)

    def log(self, numbers: dict[str, float], step: int) -> None:
        for name, value in numbers.items():
            self.client.log_metric(self.run, name.replace("/", "."), value, step=step)

    def end(self) -> None:
        self.client.set_terminated(self.run)
