"""Run one experiment on this machine: data, clients, engine, loop, run folder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import replace

from fedactive.engines import Engine, EngineShelf, choose_device
from fedactive.errors import UserError
from fedactive.experiment import Experiment
from fedactive.federation import Federation
from fedactive.laboratory.inputs import load_inputs
from fedactive.laboratory.progress import make_progress
from fedactive.laboratory.progress_file import ProgressFile
from fedactive.laboratory.simulation import Simulation
from fedactive.laboratory.split import Split, split
from fedactive.laboratory.trackers import trackers_of
from fedactive.loop import federated_active_learning
from fedactive.progress import Callback, Several
from fedactive.record.run_folder import Run, set_aside_outdated
from fedactive.record.run_tables import RunTables


def run(
    experiment: Experiment,
    progress: Callback | None = None,
    callbacks: Sequence[Callback] = (),
    fresh: bool = False,
) -> RunTables:
    """Run the experiment, or the rest of it; a finished one is not run again.

    Progress is shown in the terminal or notebook, or as `progress` does; `callbacks` are told the same. A run
    that was begun with other data or code is an error, or begun anew if `fresh`.
    """
    return run_all([experiment], Several([progress or make_progress(), *callbacks]), fresh)[0]


def run_all(
    experiments: Sequence[Experiment], progress: Callback | None = None, fresh: bool = False
) -> list[RunTables]:
    """Run the experiments one after another; those with the same training share an engine and its workers."""
    for experiment in experiments:  # a missing device or package is reported before any work
        choose_device(experiment.device)
        federation_of(experiment)
    with EngineShelf() as engines:
        return [run_with(engines, e, progress or make_progress(), fresh) for e in experiments]


def run_with(
    engines: EngineShelf, experiment: Experiment, progress: Callback, fresh: bool = False
) -> RunTables:
    dataset = load_inputs(experiment, progress)
    if fresh:
        set_aside_outdated(experiment, dataset.fingerprint)
    clients = split(experiment, dataset.train_labels, len(dataset.classes), dataset.train_clients)
    with closing(Run(experiment, dataset.fingerprint)) as folder:
        if folder.done:
            return RunTables(folder.folder)
        away = experiment.federation != "simulation"
        # If clients train elsewhere, the engine here only evaluates: one worker is enough.
        engine = engines.get(replace(experiment, workers=1) if away else experiment, dataset)
        folder.begin(clients.pools, str(engine.device), experiment.federation if away else engine.name)
        state = folder.state
        progress = Several([ProgressFile(), progress, *trackers_of(experiment)])
        progress.begin(experiment, (state.al_round - 1) * experiment.fl_rounds + state.fl_round)
        try:
            with federation_of(experiment)(experiment, clients, engine) as federation:
                federated_active_learning(experiment, federation, folder, progress)
        finally:
            progress.end()
    return RunTables(folder.folder)


def federation_of(
    experiment: Experiment,
) -> Callable[[Experiment, Split, Engine], AbstractContextManager[Federation]]:
    if experiment.federation == "simulation":
        return lambda *what: nullcontext(Simulation(*what))
    try:
        # Here, because it needs optional packages.
        from fedactive.laboratory.on_ray import check, flower_simulation
    except ModuleNotFoundError as error:
        package = str(error.name).split(".")[0]
        raise UserError(f"{package} is missing: pip install 'fedactive[simulation]' brings it") from None
    check(experiment)
    return flower_simulation
