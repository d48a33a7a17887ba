"""The files that people write, with their texts. What is generated, installed or built is left out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TEXT_SUFFIXES = frozenset({".py", ".md", ".toml", ".txt", ".proto", ".cfg", ".yaml", ".yml", ".sh", ".json", ""})
# The packages of the product; tests, examples and benchmarks are held to fewer rules.
PRODUCT = ("proto/pathways_common/", "client/", "server/", "worker/")
# Scripts as a user writes them.
PLAIN_SCRIPTS = ("tests/conformance/features/", "tests/e2e/scripts/", "examples/")
_SKIPPED = frozenset({"__pycache__", "pathways_proto", "build", "node_modules"})


def files(*suffixes: str) -> Iterator[tuple[str, str]]:
    """(path from the root, text) of every file with one of the suffixes; all text files without one."""
    wanted = frozenset(suffixes) or TEXT_SUFFIXES
    for path in sorted(ROOT.rglob("*")):
        relative = path.relative_to(ROOT)
        hidden = any(part.startswith(".") and part not in (".ci", ".gitignore") for part in relative.parts)
        if hidden or _SKIPPED & set(relative.parts) or any(part.endswith(".egg-info") for part in relative.parts):
            continue
        if path.suffix in wanted and path.is_file():
            yield relative.as_posix(), path.read_text(errors="replace")
