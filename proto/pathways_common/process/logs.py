"""Logs are a constant phrase and fields: `log.info("host joined", extra=fields(host="a0"))`, on stderr.

Lines for people when stderr is a terminal, one JSON object a line otherwise. INFO is a lifecycle transition, never one gang.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from typing import Any


def fields(**values: object) -> dict[str, Any]:
    """The `extra` argument of a logging call."""
    return {"fields": values}


def setup(process_name: str, level: int | str | None = None) -> None:
    """Sends all logging of this process to stderr; the level is `level`, else $PATHWAYS_LOG_LEVEL, else INFO."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_LineFormatter(process_name) if sys.stderr.isatty() else _JsonFormatter(process_name))
    chosen = level if level is not None else os.environ.get("PATHWAYS_LOG_LEVEL", "INFO").upper()
    root = logging.getLogger()
    root.handlers[:] = [handler]
    try:
        root.setLevel(chosen)
    except ValueError:
        root.setLevel(logging.INFO)


class _LineFormatter(logging.Formatter):
    def __init__(self, process_name: str) -> None:
        super().__init__()
        self._process_name = process_name

    def format(self, record: logging.LogRecord) -> str:
        clock = time.strftime("%H:%M:%S", time.localtime(record.created))
        values = getattr(record, "fields", None) or {}
        tail = "".join(f" {name}={value}" for name, value in values.items())
        line = f"{clock}.{int(record.msecs):03d} {record.levelname[0]} {self._process_name}: {record.getMessage()}{tail}"
        return line + (f"\n{self.formatException(record.exc_info)}" if record.exc_info else "")


class _JsonFormatter(logging.Formatter):
    def __init__(self, process_name: str) -> None:
        super().__init__()
        self._process_name = process_name

    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, object] = {
            "time": round(record.created, 3),
            "level": record.levelname,
            "process": self._process_name,
            "logger": record.name,
            "message": record.getMessage(),
        }
        values = getattr(record, "fields", None) or {}
        entry.update((name, value) for name, value in values.items() if name not in entry)
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return json.dumps(entry, default=str)
