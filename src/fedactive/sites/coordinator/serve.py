"""`fedactive coordinator serve`: the SuperLink on loopback, and the gate that sites come through."""

from __future__ import annotations

import logging
import subprocess
import threading
from dataclasses import dataclass
from functools import partial

from fedactive.files import write_json
from fedactive.sites.coordinator.alerts import Watch
from fedactive.sites.coordinator.folder import FOLDER_VARIABLE, Coordinator
from fedactive.sites.coordinator.metrics import metrics, troubles
from fedactive.sites.coordinator.resume import Resumer
from fedactive.sites.flower import processes
from fedactive.sites.flower.control import Control
from fedactive.sites.flower.gate import Gate
from fedactive.sites.invitation import parse_address
from fedactive.sites.monitor import Monitor
from fedactive.sites.page.server import PageServer

log = logging.getLogger(__name__)

SECONDS_OF_A_DAY = 86_400.0


@dataclass(frozen=True)
class Extras:
    """What `serve` does beside serving sites, where it is asked for."""

    monitor: str = ""  # host:port for a monitoring system
    page: PageServer | None = None  # for people
    webhook: str = ""  # URL to which alerts are sent
    stalled: float = 30.0  # minutes without an answer after which a site is stalled


def serve(coordinator: Coordinator, host: str, extras: Extras | None = None) -> None:
    """Serve until a signal ends it. A SuperLink that dies is started again; it still knows its sites.

    Runs that were going on when it died, or when the machine went down, go on by themselves.
    """
    extras = extras or Extras()
    coordinator.require_certificate()
    superlink = f"127.0.0.1:{processes.free_port()}"
    ports = [parse_address(known)[1] for known in (coordinator.address, *coordinator.former())]
    gate = Gate(superlink, coordinator.folder, host, ports, coordinator.keys, coordinator.address)
    stopped = threading.Event()
    threads = [
        threading.Thread(target=keep_superlink, args=(coordinator, superlink, stopped)),
        threading.Thread(target=watch_certificate, args=(coordinator, stopped)),
        threading.Thread(target=Resumer(coordinator).keep_runs, args=(stopped,)),
    ]
    watch = Watch(coordinator, extras.stalled * 60, extras.webhook)
    threads.append(threading.Thread(target=watch.keep_looking, args=(stopped,)))
    beside: list[Monitor | PageThread] = []
    if extras.monitor:
        beside.append(Monitor(extras.monitor, partial(troubles, coordinator), partial(metrics, coordinator)))
    if extras.page:
        beside.append(PageThread(extras.page))
        log.info("the coordinator's page is at %s", extras.page.address)
    for thread in (*threads, *beside):
        thread.start()
    try:
        gate.run()
    finally:
        stopped.set()
        for one in beside:
            one.stop()
        for thread in threads:
            thread.join()


class PageThread:
    """A page that is served beside the sites."""

    def __init__(self, page: PageServer) -> None:
        self.page = page
        self.thread = threading.Thread(target=page.run, daemon=True)

    def start(self) -> None:
        self.thread.start()

    def stop(self) -> None:
        self.page.stop()
        self.thread.join()


def watch_certificate(coordinator: Coordinator, stopped: threading.Event) -> None:
    """Say each day that the certificate ends soon, or has ended."""
    going_on = True
    while going_on:
        if notice := coordinator.certificate_notice():
            log.warning("%s", notice)
        going_on = not stopped.wait(SECONDS_OF_A_DAY)


def keep_superlink(coordinator: Coordinator, address: str, stopped: threading.Event) -> None:
    """Start a SuperLink, and another one when it ends, until `stopped`; serving.json says where it is."""
    serving = coordinator.folder / "serving.json"
    serving.unlink(missing_ok=True)  # of one that was killed
    while not stopped.is_set():
        process = start_superlink(coordinator, address)
        control = Control(address, coordinator.folder / "ca.pem")
        # However long it takes: on a busy machine that may be minutes.
        if control.wait(partial(is_over, process, stopped)):
            write_json(serving, {"address": address, "pid": process.pid})
            admitted = ", ".join(site.name for site in coordinator.sites()) or "none yet"
            log.info("serving sites at %s; admitted: %s", coordinator.address, admitted)
        control.close()
        while process.poll() is None and not stopped.wait(0.2):
            pass
        serving.unlink(missing_ok=True)
        processes.end(process)
        if not stopped.is_set():
            log.warning("the SuperLink ended and is started again; see %s", coordinator.folder / "flower.log")


def is_over(process: subprocess.Popen[bytes], stopped: threading.Event) -> bool:
    return stopped.is_set() or process.poll() is not None


def start_superlink(coordinator: Coordinator, address: str) -> subprocess.Popen[bytes]:
    folder = coordinator.folder
    host, port = parse_address(address)
    return processes.start(
        "superlink",
        [
            *("--host", host, "--port", port),
            *("--ssl-certfile", folder / "server.pem", "--ssl-keyfile", folder / "server.key"),
            *("--ssl-ca-certfile", folder / "ca.pem"),
            "--enable-supernode-auth",
            *("--database", folder / "flower" / "state.db"),
        ],
        home=folder / "flower",
        log=folder / "flower.log",
        environment={FOLDER_VARIABLE: str(folder)},
    )
