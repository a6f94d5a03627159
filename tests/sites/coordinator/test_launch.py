"""A run is found again by whoever asks for it, whatever happened when it was started."""

from __future__ import annotations

import fcntl
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import pytest
from flwr.proto.control_pb2 import ListRunsResponse, StartRunResponse, StopRunResponse
from flwr.proto.run_pb2 import Run, RunStatus

from fedactive.errors import RunError, UserError
from fedactive.sites.coordinator import folder as admission
from fedactive.sites.coordinator import launch
from fedactive.sites.coordinator.folder import Coordinator
from fedactive.sites.coordinator.launch import explain_end
from fedactive.sites.coordinator.member import Member
from fedactive.sites.coordinator.resume import Resumer
from fedactive.sites.coordinator.status import Phase, Status
from fedactive.sites.flower.control import Control

PLAN = 'dataset = "digits"\nrounds = 2'


class SuperLink:
    """What Flower's remembers of runs; `interrupted`: Ctrl-C as soon as it has started the next."""

    def __init__(self):
        self.runs = {}
        self.ids = count(1)
        self.interrupted = False

    def StartRun(self, request):  # noqa: N802 - Flower's name
        time.sleep(0.02)  # as if it were elsewhere
        run = next(self.ids)
        status = RunStatus(status="running")
        self.runs[run] = Run(run_id=run, override_config=request.override_config, status=status)
        if self.interrupted:
            self.interrupted = False
            raise KeyboardInterrupt
        return StartRunResponse(run_id=run)

    def ListRuns(self, request):  # noqa: N802 - Flower's name
        wanted = [request.run_id] if request.HasField("run_id") else list(self.runs)[::-1][: request.limit]
        return ListRunsResponse(run_dict={run: self.runs[run] for run in wanted})

    def StopRun(self, request):  # noqa: N802 - Flower's name
        self.runs[request.run_id].status.status = "finished"
        return StopRunResponse(success=True)

    def close(self):
        pass

    def going_on(self):
        return [run for run, kept in self.runs.items() if kept.status.status == "running"]


@pytest.fixture
def superlink():
    return SuperLink()


@pytest.fixture
def coordinator(tmp_path, superlink, monkeypatch):
    made = Coordinator.init(tmp_path / "coordinator", "localhost:9443")
    made.write_sites([Member("north", 1, "key")])
    served_by(made, 1)
    monkeypatch.setattr(admission, "Control", lambda *_: control_of(superlink))
    monkeypatch.setattr(launch, "SECONDS_BETWEEN_POLLS", 0.01)
    return made


def control_of(superlink):
    control = Control.__new__(Control)
    control.client = superlink
    return control


def served_by(coordinator, pid):
    (coordinator.folder / "serving.json").write_text(json.dumps({"address": "localhost:1", "pid": pid}))


@pytest.fixture
def glance(coordinator, monkeypatch):
    """Give the command, and Ctrl-C when it shows how the run is going."""

    class SeenError(Exception):
        pass

    def seen(_):
        raise SeenError

    monkeypatch.setattr(launch, "read_status", seen)

    def give(plan):
        with pytest.raises(SeenError):
            launch.run(coordinator, plan)

    return give


def test_a_run_whose_start_was_interrupted_is_found_and_stopped(coordinator, superlink, glance):
    plan = coordinator.keep_plan(PLAN)
    superlink.interrupted = True
    with pytest.raises(KeyboardInterrupt):
        launch.run(coordinator, plan)
    glance(plan)
    assert superlink.going_on() == [1]
    launch.stop(coordinator, plan)
    assert superlink.going_on() == []
    with pytest.raises(UserError, match="no run of this plan is going on"):
        launch.stop(coordinator, plan)


def test_the_same_command_several_times_at_once_starts_one_run(coordinator, superlink, glance):
    plan = coordinator.keep_plan(PLAN)
    with ThreadPoolExecutor() as threads:
        list(threads.map(glance, [plan] * 4))
    assert superlink.going_on() == [1]


def test_runs_of_two_plans_go_on_side_by_side(coordinator, superlink, glance):
    plans = [coordinator.keep_plan(f"{PLAN}\nseed = {seed}") for seed in range(24)]
    for plan in plans * 2:
        glance(plan)
    assert len(superlink.going_on()) == 24
    launch.stop(coordinator, plans[3])
    assert superlink.going_on() == [run for run in range(1, 25) if run != 4]


def test_a_run_of_a_superlink_that_died_is_started_again(coordinator, superlink, glance):
    plan = coordinator.keep_plan(PLAN)
    glance(plan)
    served_by(coordinator, pid=2)
    glance(plan)
    assert superlink.going_on() == [2]


def test_a_process_that_still_writes_in_the_folder_is_waited_for(coordinator, superlink, glance, monkeypatch):
    plan = coordinator.keep_plan(PLAN)
    coordinator.begin(plan)
    with open(coordinator.run_folder(plan) / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        monkeypatch.setattr(launch, "SECONDS_TO_LET_GO", 0.05)
        with pytest.raises(RunError, match="goes on with this run already"):
            launch.run(coordinator, plan)
        monkeypatch.setattr(launch, "SECONDS_TO_LET_GO", 60)
        threading.Timer(0.05, fcntl.flock, (lock, fcntl.LOCK_UN)).start()
        glance(plan)
    assert superlink.going_on() == [1]


def test_the_same_command_is_advised_where_it_helps():
    assert "the same command goes on" in explain_end(Status(Phase("training", 1, 2, 4)))
    stopped = Status(Phase("stopped", reason="budget: 0.5 was given"))
    assert explain_end(stopped) == "the run stopped: budget: 0.5 was given"


# ------------------------------------------------------------------------------------------ by itself


def test_what_was_going_on_goes_on_by_itself(coordinator, superlink, glance):
    plan = coordinator.keep_plan(PLAN)
    glance(plan)
    resumer = Resumer(coordinator)
    resumer.look()
    assert superlink.going_on() == [1]  # it is going on
    served_by(coordinator, pid=2)  # the SuperLink died, and its runs with it
    resumer.look()
    assert superlink.going_on() == [2]
    superlink.runs[2].status.status = "finished"  # its process was killed
    resumer.look()
    assert superlink.going_on() == []  # not at once: it may fail again and again
    resumer.started = {name: (then - 60, pause) for name, (then, pause) in resumer.started.items()}
    resumer.look()
    assert superlink.going_on() == [3]


def test_what_was_stopped_stays_stopped(coordinator, superlink, glance):
    plan = coordinator.keep_plan(PLAN)
    glance(plan)
    launch.stop(coordinator, plan)
    served_by(coordinator, pid=2)
    Resumer(coordinator).look()
    assert superlink.going_on() == []
    glance(plan)  # a person starts it again
    assert coordinator.wanted() == [plan.experiment.name]


def test_a_run_that_is_held_is_left_alone_and_one_that_cannot_go_on_is_named(
    coordinator, superlink, glance, caplog
):
    plan = coordinator.keep_plan(PLAN)
    glance(plan)
    served_by(coordinator, pid=2)
    with open(coordinator.run_folder(plan) / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        Resumer(coordinator).look()
    assert superlink.going_on() == []  # that of the SuperLink that died is stopped
    coordinator.plan_file(plan.experiment.name).write_text('dataset = "digts"')
    Resumer(coordinator).look()
    assert "cannot go on with run" in caplog.text
    (coordinator.folder / "serving.json").unlink()
    caplog.clear()
    Resumer(coordinator).look()
    assert not caplog.records  # the SuperLink is being started
