"""Programs that only some tests need: without them a test is skipped, and fails where every test has to run."""

from __future__ import annotations

import os
import shutil

import pytest


def needs(what: str, *programs: str) -> None:
    """Skips on a machine without the tools; where every test has to run, that is a failure."""
    missing = [program for program in programs if shutil.which(program) is None]
    if missing:
        sentence = f"{what} needs {' and '.join(missing)}, which this machine does not have"
        if os.environ.get("CI"):
            pytest.fail(sentence)
        pytest.skip(sentence)
