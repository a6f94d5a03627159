"""Start Flower's own processes so that they end when we do, send no telemetry and install nothing."""

from __future__ import annotations

import errno
import os
import secrets
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from fedactive.children import environment_of_a_child

PROGRAMS = {"superlink": "flwr.superlink.cli", "supernode": "flwr.supernode.cli"}
SECONDS_TO_END = 8.0
LARGEST_LOG = 4 * 2**20  # bytes

# The program ends when we do, even if we are killed: in good order, or by force if it hangs.
PROGRAM = """
from fedactive.quick_imports import quick_imports
with quick_imports():
    import logging, os, signal, sys, threading, time, traceback
    from flwr.common.logger import update_console_handler
    from {module} import flower_{name}
    from fedactive.sites.flower import layers, pace

logging.Formatter.default_time_format = "%Y-%m-%dT%H:%M:%S%z"
logging.Formatter.default_msec_format = None
update_console_handler(timestamps=True, colored=False)
layers.shorten()
{before}

def end_with_parent():
    while os.getppid() == {parent}:
        time.sleep(0.2)
    signal.raise_signal(signal.SIGINT)
    time.sleep({patience})
    os._exit(1)

threading.Thread(target=end_with_parent, daemon=True).start()
sys.argv[0] = "flower-{name}"
try:
    flower_{name}()
except SystemExit:
    raise  # its end in good order
except BaseException:
    traceback.print_exc()
os._exit(1)  # or threads that it left would keep the process
"""


def start(
    name: str,
    arguments: Sequence[object],
    home: Path,
    log: Path,
    environment: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """Start a SuperLink or SuperNode. Its output is appended to `log`; a large one is put aside before."""
    before = "pace.set_pace()" if name == "supernode" else ""
    program = PROGRAM.format(
        module=PROGRAMS[name], name=name, before=before, parent=os.getpid(), patience=SECONDS_TO_END
    )
    home.mkdir(parents=True, exist_ok=True)
    quiet = {
        "FLWR_HOME": str(home.resolve()),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
        # A SuperLink starts its helpers by name.
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
    }
    if log.exists() and log.stat().st_size > LARGEST_LOG:
        log.replace(log.with_name(f"{log.name}.old"))
    with log.open("ab") as output:
        return subprocess.Popen(
            [sys.executable, "-c", program, *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment_of_a_child(quiet | dict(environment or {})),
            start_new_session=True,  # Ctrl-C reaches only us, and we end it
        )


def end(process: subprocess.Popen[bytes]) -> None:
    """End a process: in good order if that is quick, else by force."""
    process.terminate()
    try:
        process.wait(SECONDS_TO_END)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def free_port() -> int:
    """Find a port that is free, and that no outgoing connection will be given meanwhile."""
    while True:
        port = 20_000 + secrets.randbelow(12_000)
        try:
            with socket.create_server(("127.0.0.1", port)):
                return port
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
