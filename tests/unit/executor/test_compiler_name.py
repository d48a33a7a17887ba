"""Each thing that an image depends on besides its key makes another name; what it does not depend on leaves the name."""

from __future__ import annotations

import os
from pathlib import Path

import jaxlib
import pytest
from pathways_worker.executor import compiler_name

PROCESSOR = {
    "vendor_id": "Maker",
    "model name": "Model 1",
    "flags": "fpu sse2 avx2",
    "cpu MHz": "2100.000",
    "bogomips": "4200.00",
}
RUNTIME = ("cpu", "XLA 1", "cpu")


def name(*runtime: str) -> str:
    return compiler_name.compiler_name(*(runtime or RUNTIME))


def write(path: Path, **changed: str) -> None:
    """As /proc/cpuinfo has it: two processors with a line for each field, tabs before the colon."""
    one = "\n".join(f"{field}\t: {value}" for field, value in (PROCESSOR | changed).items())
    path.write_text(f"processor\t: 0\n{one}\n\nprocessor\t: 1\n{one}\n\n")


@pytest.fixture
def processors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "cpuinfo"
    write(path)
    monkeypatch.setattr(compiler_name, "_PROCESSORS", path)
    return path


@pytest.mark.parametrize(("field", "value"), [("flags", "fpu sse2 avx2 avx512f"), ("vendor_id", "Other"), ("model name", "2")])
def test_another_processor_is_another_compiler(processors: Path, field: str, value: str) -> None:
    before = name()
    write(processors, **{field: value})
    assert name() != before
    write(processors)
    assert name() == before


@pytest.mark.parametrize(("field", "value"), [("cpu MHz", "3500.123"), ("bogomips", "1.0")])
def test_how_fast_a_processor_runs_now_does_not_count(processors: Path, field: str, value: str) -> None:
    before = name()
    write(processors, **{field: value})
    assert name() == before


@pytest.mark.parametrize("variable", ["XLA_FLAGS", "PJRT_NPROC", "NPROC"])
def test_other_flags_are_another_compiler(processors: Path, monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    before = name()
    monkeypatch.setenv(variable, "3")
    assert name() != before


def test_other_versions_kinds_of_devices_and_counts_of_threads_are_other_compilers(
    processors: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    names = [name(), name("cpu", "XLA 2", "cpu"), name("cpu", "XLA 1", "cpu of another kind")]
    with monkeypatch.context() as other:
        other.setattr(jaxlib, "__version__", "0.0.1")
        names.append(name())
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2})
    names.append(name())
    assert len(set(names)) == len(names)
