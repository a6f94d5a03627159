"""The ServerApp that Flower starts for a run: the coordinator's loop, over Flower's grid."""

from __future__ import annotations

import logging
import os
import threading
import time
from pathlib import Path

from fedactive.quick_imports import quick_imports

with quick_imports():
    from flwr.app import Context
    from flwr.serverapp import Grid, ServerApp

    from fedactive.errors import UserError
    from fedactive.sites.coordinator.folder import FOLDER_VARIABLE, Coordinator
    from fedactive.sites.coordinator.run_plan import run_plan
    from fedactive.sites.flower.pace import ask_again_soon
    from fedactive.sites.flower.transport import FlowerTransport
    from fedactive.sites.log_lines import PlainFormatter

SECONDS_BETWEEN_POLLS = 0.5

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    threading.Thread(target=end_with_parent, daemon=True).start()
    ask_again_soon()
    coordinator = Coordinator(Path(os.environ[FOLDER_VARIABLE]))
    plan = coordinator.plan(str(context.run_config["plan"]))
    # Flower does not show what is printed here.
    log = logging.FileHandler(coordinator.log_file(plan), encoding="utf-8")
    log.setFormatter(PlainFormatter())
    logging.basicConfig(handlers=[log], level=logging.INFO, force=True)
    for chatty in ("httpx", "flwr"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    sites = coordinator.sites_of(plan)

    def dismissed() -> set[int]:
        return {k for k, site in enumerate(coordinator.sites_of(plan)) if site.dismissed}

    try:
        transport = FlowerTransport(grid, [site.node for site in sites])
        run_plan(plan, transport, [site.name for site in sites], dismissed)
        coordinator.want(plan.experiment.name, False)
    except UserError:  # a person has to put something right first
        logging.exception("the run stopped")
        coordinator.want(plan.experiment.name, False)
        raise
    except Exception:
        logging.exception("the run stopped")
        raise


def end_with_parent() -> None:
    """End with the SuperLink, whose process started this one: a run that is resumed has a new process."""
    parent = os.getppid()
    while os.getppid() == parent:
        time.sleep(SECONDS_BETWEEN_POLLS)
    os._exit(1)  # at once: everything that matters is on disk
