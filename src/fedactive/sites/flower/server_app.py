"""The ServerApp that Flower starts for a run: the coordinator's loop, over Flower's grid."""

from __future__ import annotations

import logging
import os
from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from fedactive.errors import UserError
from fedactive.sites import field
from fedactive.sites.coordinator import FOLDER_VARIABLE, Coordinator
from fedactive.sites.flower.transport import FlowerTransport

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    coordinator = Coordinator(Path(os.environ[FOLDER_VARIABLE]))
    sites = coordinator.sites()
    transport = FlowerTransport(grid, [site.node for site in sites])
    try:
        field.run(coordinator.plan(str(context.run_config["plan"])), transport, [site.name for site in sites])
    except UserError as error:
        raise SystemExit(f"fedactive: {error}") from None
