"""The faults that `make mutants` plants: what a tired programmer could have written instead."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

EQUALITY = {"Eq": "NotEq", "NotEq": "Eq", "In": "NotIn", "NotIn": "In", "Is": "IsNot", "IsNot": "Is"}
COMPARISON = EQUALITY | {"Lt": "LtE", "LtE": "Lt", "Gt": "GtE", "GtE": "Gt"}
ARITHMETIC = {"Add": "Sub", "Sub": "Add", "Mult": "Div", "Div": "Mult", "FloorDiv": "Div", "Mod": "FloorDiv"}
ARITHMETIC |= {"Pow": "Mult", "BitAnd": "BitOr", "BitOr": "BitAnd"}
FUNCTIONS = {"min": "max", "max": "min", "any": "all", "all": "any", "round": "int", "sorted": "list"}
FUNCTIONS |= {"abs": "float", "reversed": "list"}
PAIRS = ["min max", "any all", "amin amax", "argmin argmax", "floor ceil", "sum mean", "minimum maximum"]
PAIRS += ["zeros ones", "zeros_like ones_like", "clamp_min clamp_max", "clamp_min_ clamp_max_", "first last"]
METHODS = {"round": "floor", "var": "std"}
for one, other in map(str.split, PAIRS):
    METHODS |= {one: other, other: one}
LEFT_ALONE = ("decorator_list", "annotation", "returns")
ATOMS = ast.Constant | ast.Name | ast.Attribute | ast.Call  # never need brackets


@dataclass(frozen=True)
class Mutant:
    file: str  # below the package
    line: int
    statement: range  # its lines, without what it encloses
    at_import: bool  # outside all functions: tests do not execute it by themselves
    code: str  # the line
    change: str
    another_number: bool  # whether that is all that changes
    source: str  # of the whole file

    @property
    def key(self) -> str:
        return digest(self.file.encode(), self.source.encode())

    def is_listed(self, entries: list[dict[str, Any]]) -> bool:
        """Return whether an entry of mutants.toml is about it."""
        names = {self.change, "another number"} if self.another_number else {self.change}
        return any(e["file"] == self.file and names & {*e["faults"].get(self.code, [])} for e in entries)


def digest(*parts: bytes) -> str:
    return sha256(b"".join(parts)).hexdigest()[:16]


def variants(node: ast.AST) -> Iterator[tuple[Any, ast.AST]]:
    """Yield each part of the node that is replaced, and by what."""

    def other(**fields: Any) -> tuple[Any, ast.AST]:
        new = deepcopy(node)
        for name, value in fields.items():
            setattr(new, name, value)
        return node, new

    match node:
        case ast.Compare(ops=[op, *rest]) if type(op).__name__ in COMPARISON:
            yield other(ops=[getattr(ast, COMPARISON[type(op).__name__])(), *rest])
        case ast.BinOp(op=op) | ast.AugAssign(op=op) if type(op).__name__ in ARITHMETIC:
            yield other(op=getattr(ast, ARITHMETIC[type(op).__name__])())
        case ast.BoolOp(op=op):
            yield other(op=ast.Or() if isinstance(op, ast.And) else ast.And())
        case ast.UnaryOp(op=ast.Not() | ast.USub() | ast.Invert(), operand=operand):
            yield node, operand
        case ast.Constant(value=bool() as value):
            yield other(value=not value)
        case ast.Constant(value=int() as value):
            yield other(value=value + 1)
        case ast.Constant(value=float() as value):
            yield other(value=2 * value if value else 1.0)
        case ast.Call(func=ast.Name(id=name)) if name in FUNCTIONS:
            yield other(func=ast.Name(FUNCTIONS[name]))
        case ast.Call(func=ast.Attribute(value=value, attr=name)) if name in METHODS:
            yield other(func=ast.Attribute(value, METHODS[name]))
        case ast.Return(value=ast.expr() as value) if ast.unparse(value) != "None":
            yield other(value=ast.Constant(None))
        case ast.Break():
            yield node, ast.Continue()
        case ast.Continue() | ast.Raise() | ast.Expr(value=ast.Call()):
            yield node, ast.Pass()
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield node, ast.Pass()
    conditions = [node.test] if isinstance(node, ast.If | ast.While | ast.IfExp) else getattr(node, "ifs", [])
    for test in conditions:
        turned = isinstance(test, ast.Compare) and type(test.ops[0]).__name__ in EQUALITY
        if not turned and not (isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)):
            yield test, ast.UnaryOp(ast.Not(), test)


def mutants(package: Path, file: str) -> Iterator[Mutant]:
    """Yield every mutant of a file, in the order of its text."""
    source = (package / file).read_bytes()
    rows = source.splitlines(keepends=True)
    starts = [sum(map(len, rows[:n])) for n in range(len(rows))]

    def mutant(old: Any, new: ast.AST, statement: Any, at_import: bool) -> Mutant:
        begin, end = starts[old.lineno - 1] + old.col_offset, starts[old.end_lineno - 1] + old.end_col_offset
        bodies = [part.lineno - 1 for part in getattr(statement, "body", [])]
        head = range(statement.lineno, max(statement.lineno, min([statement.end_lineno, *bodies])) + 1)
        text = ast.unparse(new)
        bare, safe = ((source[:begin] + t.encode() + source[end:]).decode() for t in (text, f"({text})"))
        whole = bare if isinstance(new, ast.stmt | ATOMS) or same(bare, safe) else safe
        code, change = (lines.splitlines()[old.lineno - 1].strip() for lines in (source.decode(), whole))
        number = isinstance(old, ast.Constant) and not isinstance(old.value, bool)
        return Mutant(file, old.lineno, head, at_import, code, change, number, whole)

    def visit(node: ast.AST, statement: ast.AST, at_import: bool) -> Iterator[Mutant]:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            return
        statement = node if isinstance(node, ast.stmt) else statement
        for old, new in variants(node):
            yield mutant(old, new, statement, at_import)
        if isinstance(node, ast.JoinedStr | ast.Raise | ast.Assert):
            return
        for name, value in ast.iter_fields(node):
            local = isinstance(node, ast.FunctionDef | ast.Lambda) and name == "body"
            for child in value if isinstance(value, list) else [value]:
                spared = isinstance(child, ast.keyword) and child.arg == "strict"
                if isinstance(child, ast.AST) and not spared and name not in LEFT_ALONE:
                    yield from visit(child, statement, at_import and not local)

    yield from visit(ast.parse(source), ast.Pass(), True)


def same(one: str, other: str) -> bool:
    """Return whether two sources mean the same."""
    try:
        return ast.dump(ast.parse(one)) == ast.dump(ast.parse(other))
    except SyntaxError:
        return False
