"""A Ray cluster of several nodes on this machine, in a process of its own: Ray leaves much behind where it starts.

    python ray_cluster.py '{"num_cpus": 1}' '{"num_cpus": 1, "num_gpus": 2}'

starts such nodes beside a head without any resources, prints the address, and ends when its input closes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def cluster(folder: Path, *nodes: dict[str, int]) -> Iterator[str]:
    """Start the nodes, whose temporary files go to this folder, and yield the address of the cluster."""
    command = [sys.executable, __file__, *map(json.dumps, nodes)]
    # Ray's own lie elsewhere: the names of sockets are short.
    variables = {"RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0", "TMPDIR": str(folder), "RAY_TMPDIR": "/tmp"}
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd="/", env=os.environ | variables
    )
    assert process.stdin
    assert process.stdout
    with process:
        addresses = [line.split()[1] for line in process.stdout if line.startswith("address ")][:1] or [""]
        yield addresses[0]
        process.stdin.close()


def main(nodes: list[str]) -> None:
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    for node in nodes:
        made.add_node(**json.loads(node))
    print("address", made.address, flush=True)
    os.close(1)  # the reader waits for the end
    sys.stdin.read()
    made.shutdown()


if __name__ == "__main__":
    main(sys.argv[1:])
