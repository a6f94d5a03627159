"""How a fault gets into a package that is imported already: new code for functions, new values for constants."""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from types import CodeType
from typing import Any

from support.faults import Mutant


def new_code(mutant: Mutant, path: Path) -> dict[Any, CodeType] | None:
    """What the functions of the file become; None where that is more than exchanging their code."""

    def codes(code: CodeType) -> list[CodeType]:
        inner = [const for const in code.co_consts if isinstance(const, CodeType)]
        return [part for one in inner for part in (one, *codes(one))]

    old, new = (codes(compile(text, path, "exec")) for text in (path.read_text(), mutant.source))
    alike = [(c.co_qualname, c.co_freevars) for c in old] == [(c.co_qualname, c.co_freevars) for c in new]
    names = [(str(path), c.co_qualname, c.co_firstlineno) for c in old]
    return dict(zip(names, new, strict=True)) if alike else None


def constant_of(mutant: Mutant) -> ast.Assign | None:
    """Return the changed assignment, if it is one of the module's own."""
    body = ast.parse(mutant.source).body if mutant.at_import else []
    found = next((node for node in body if node.lineno == mutant.statement.start), None)
    return found if isinstance(found, ast.Assign) else None


def exchange(assignment: ast.Assign, module: str) -> None:
    """Assign anew, also where the old value was imported: far quicker than importing the package anew.

    Where it went otherwise, as into a default argument, it stays. So what is not noticed is tried again.
    """
    there = vars(sys.modules[module])
    names = [
        node.id for target in assignment.targets for node in ast.walk(target) if isinstance(node, ast.Name)
    ]
    before = {name: there[name] for name in names}
    exec(compile(ast.Module([assignment], []), module, "exec"), there)
    for name, value in before.items():
        for other in map(vars, list(sys.modules.values())):
            if name in other and other[name] is value:
                other[name] = there[name]
