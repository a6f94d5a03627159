"""`fedactive coordinator serve`: the SuperLink on loopback, and the gate that sites come through."""

from __future__ import annotations

import logging
import subprocess
import threading

from fedactive.files import write_json
from fedactive.sites.coordinator.folder import FOLDER_VARIABLE, Coordinator
from fedactive.sites.coordinator.resume import Resumer
from fedactive.sites.flower import processes
from fedactive.sites.flower.control import Control
from fedactive.sites.flower.gate import Gate
from fedactive.sites.invitation import parse_address

log = logging.getLogger(__name__)

SECONDS_TO_START = 60.0
SECONDS_OF_A_DAY = 86_400.0


def serve(coordinator: Coordinator, host: str) -> None:
    """Serve until a signal ends it. A SuperLink that dies is started again; it still knows its sites.

    Runs that were going on when it died, or when the machine went down, go on by themselves.
    """
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
    for thread in threads:
        thread.start()
    try:
        gate.run()
    finally:
        stopped.set()
        for thread in threads:
            thread.join()


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
        if control.wait(SECONDS_TO_START, stopped.is_set):
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
