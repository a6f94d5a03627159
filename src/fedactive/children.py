"""The environment of the Python processes that we start.

Python looks for modules in the current directory first when it is started with -c or -m. Somebody else may
have put a json.py or a flwr.py there, and it would be run. The variable reaches their own children, too.
"""

from __future__ import annotations

import os
from collections.abc import Mapping


def environment_of_a_child(variables: Mapping[str, str]) -> dict[str, str]:
    """Return our environment with these variables, for a child that imports nothing from where it is started.

    PYTHONPATH still counts: it is what the user wants to be imported.
    """
    return os.environ | {"PYTHONSAFEPATH": "1"} | dict(variables)
