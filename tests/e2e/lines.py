"""Output of a running script, line by line, with deadlines; what users have for it."""

from __future__ import annotations

from pathways.testing.scripts import Lines as Lines
from pathways.testing.scripts import end_script as stop

__all__ = ["Lines", "stop"]
