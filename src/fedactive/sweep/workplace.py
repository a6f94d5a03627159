"""Where a grid's runs are done: on this machine, or on a Ray cluster."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fedactive.errors import UserError, unknown_name
from fedactive.sweep.here import Here
from fedactive.sweep.placement import find_gpus, split_devices

if TYPE_CHECKING:
    from fedactive.sweep.on_ray import OnRay


def open_workplace(on: str, devices: object, jobs: int | None, plugins: Sequence[Path] = ()) -> Here | OnRay:
    """Find what runs are done on; what is not there is an error now. `devices` is as a user gives them."""
    chosen = split_devices(devices)
    if on == "here":
        return Here(jobs, plugins, find_gpus(chosen))
    if on != "ray":
        raise unknown_name("on", on, ("here", "ray"))
    try:
        from fedactive.sweep.on_ray import OnRay  # here, because it needs optional packages
    except ModuleNotFoundError as error:
        package = str(error.name).split(".")[0]
        raise UserError(f"{package} is missing: pip install 'fedactive[simulation]' brings it") from None
    return OnRay(jobs, plugins, chosen)
