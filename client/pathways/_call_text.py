"""What the source text calls what it calls: a node is named as the user wrote it where its function has no name of its own."""

from __future__ import annotations

import ast
import linecache


def callee(file: str, start_line: int, start_column: int, end_line: int, end_column: int) -> str:
    """The dotted name that is called in this piece of a source file; empty if it is no plain call or cannot be read.

    Lines count from 1, columns from 0, in characters of UTF-8 as Python's own positions do.
    """
    lines = [linecache.getline(file, number).encode() for number in range(start_line, end_line + 1)]
    if not lines or not all(lines):
        return ""
    lines[-1] = lines[-1][:end_column]
    lines[0] = lines[0][start_column:]
    try:
        found = ast.parse(b"".join(lines).decode().strip(), mode="eval").body
    except (SyntaxError, ValueError):
        return ""
    target = found.func if isinstance(found, ast.Call) else None
    return ast.unparse(target) if isinstance(target, (ast.Name, ast.Attribute)) and _plain(target) else ""


def _plain(target: ast.expr) -> bool:
    while isinstance(target, ast.Attribute):
        target = target.value
    return isinstance(target, ast.Name)
