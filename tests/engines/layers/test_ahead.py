"""Kernels that begin before the one before has ended: on which GPUs, and that each of them waits."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from fedactive import engines

FOLDER = Path(engines.__file__).parent
FILES = [FOLDER / "step_kernels.py", *sorted((FOLDER / "layers").glob("*.py"))]
TREES = [ast.parse(file.read_text(encoding="utf-8")) for file in FILES]
WAIT = "wait_for_the_last"


def calls(tree):
    return [node for node in ast.walk(tree) if isinstance(node, ast.Call)]


def jitted():
    """Return all functions that Triton compiles, by name."""
    functions = [node for tree in TREES for node in tree.body if isinstance(node, ast.FunctionDef)]
    found = [f for f in functions if "triton.jit" in map(ast.unparse, f.decorator_list)]
    assert len({function.name for function in found}) == len(found)
    return {function.name: function for function in found}


def kernels():
    """Return those of them that no other one calls: these are launched."""
    functions = jitted()
    called = {ast.unparse(call.func) for function in functions.values() for call in calls(function)}
    return {name: function for name, function in functions.items() if name not in called}


def test_every_kernel_waits_for_the_last_before_all_else():
    """One that did not could read what is not written yet, on some GPUs and at some times."""
    assert len(kernels()) > 20
    for name, function in kernels().items():
        begin = 1 if ast.get_docstring(function) else 0
        assert ast.unparse(function.body[begin]) == f"{WAIT}()", name


def test_what_is_launched_is_a_kernel_of_these():
    """So a function that is launched and called by another one would be noticed, too."""
    launched = {
        ast.unparse(call.args[0]).split(".")[-1]
        for tree in TREES
        for call in calls(tree)
        if ast.unparse(call.func) == "Launch"
    }
    assert len(launched) > 10
    assert launched & jitted().keys() <= kernels().keys()


@pytest.mark.parametrize(
    ("capabilities", "ahead"),
    [([(9, 0)], True), ([(9, 0), (10, 0)], True), ([(9, 0), (8, 0)], False), ([(8, 9), (9, 0)], False)],
)
def test_it_is_done_where_all_gpus_can(capabilities, ahead):
    """Whichever is used first: there is one answer for all of a process."""
    pytest.importorskip("triton")
    code = f"""
import torch
torch.cuda.is_available, torch.cuda.device_count = lambda: True, lambda: {len(capabilities)}
torch.cuda.get_device_capability = lambda device=0: {capabilities}[device]
from fedactive.engines.layers.ahead import AHEAD
print(AHEAD.value)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == f"{ahead}\n"
