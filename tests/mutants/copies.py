"""A copy of the tree that is broken and mended many times: mending puts back whatever is not as it was copied."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path


class Copy:
    """`path`: where it lies. It has what is compiled already, which goes by the times of the sources."""

    def __init__(self, root: Path, path: Path, names: Sequence[str]) -> None:
        self.path = path
        self._root = root
        for name in names:
            source = root / name
            if source.is_dir():
                shutil.copytree(source, path / name, ignore=shutil.ignore_patterns(".*_cache"))
            else:
                shutil.copy2(source, path / name)
        self._whole = dict(self._files())

    def apply(self, patch: Path) -> str:
        """Empty, or why the patch does not apply."""
        command = ["git", "apply", "--whitespace=nowarn", str(patch)]
        done = subprocess.run(command, cwd=self.path, capture_output=True, text=True, timeout=60, check=False)
        return done.stderr.strip() or f"exit {done.returncode}" if done.returncode else ""

    def mend(self) -> None:
        found = dict(self._files())
        for name in found.keys() - self._whole.keys():
            (self.path / name).unlink()
        for name, state in self._whole.items():
            if found.get(name) != state:
                (self.path / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(self._root / name, self.path / name)

    def _files(self) -> Iterator[tuple[str, tuple[int, int]]]:
        """What there is, by size and time of the last change."""
        for folder, _, names in os.walk(self.path):
            for name in names:
                path = os.path.join(folder, name)
                stat = os.lstat(path)
                yield os.path.relpath(path, self.path), (stat.st_size, stat.st_mtime_ns)
