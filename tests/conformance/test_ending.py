"""A script of these that SIGTERM ends stops its cluster at once, begins nothing more, and says so by its exit code."""

from __future__ import annotations

import signal
import subprocess
import sys
from threading import Timer

import pytest

from tests.cluster import ROOT

LIMIT_S = 60.0
_PROGRAM = """
import importlib, sys, threading, time
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

name, *words = sys.argv[1:]
module = importlib.import_module(f"tests.conformance.{name}")
begun, down = threading.Event(), threading.Event()

def say(*words):
    print(*words, flush=True)

@contextmanager
def running_cluster(*shape):
    try:
        yield SimpleNamespace(python="", environment={})
    finally:
        say("down")
        down.set()

def run_locally(features, *more):
    begun.set()
    say("a local run ends behind it:", down.wait(20))
    return {}

def compare_all(features, *more):
    begun.wait(20)
    say("comparing")
    time.sleep(40)

def two_groups(*names):
    return [module.Feature(islands, Path(islands), SimpleNamespace(ISLANDS=islands)) for islands in ("a", "all")]

module.running_cluster, module.run_locally, module.compare_all = running_cluster, run_locally, compare_all
module.features = two_groups
module.environment_of, module.installed = lambda version: Path(sys.executable), lambda python: "0.9.2"
sys.argv = [name, *words]
sys.exit(module.main())
"""


@pytest.mark.parametrize("words", [["run", "jit", "reshard"], ["ecosystem"], ["compat", "0.9"]], ids=lambda words: words[0])
def test_sigterm_stops_the_cluster_before_anything_else(words: list[str]) -> None:
    command = [sys.executable, "-c", _PROGRAM, *words]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        killer = Timer(LIMIT_S, process.kill)
        killer.start()
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            before = []
            while (line := process.stdout.readline()) not in ("comparing\n", ""):
                before.append(line)
            process.send_signal(signal.SIGTERM)
            out, err = process.stdout.read(), process.stderr.read()
        finally:
            killer.cancel()
            process.kill()
    assert process.returncode == 128 + signal.SIGTERM, err
    assert before == (["--- jaxlib 0.9.2\n"] if words[0] == "compat" else [])
    assert out.splitlines() == ["down", "a local run ends behind it: True"]
