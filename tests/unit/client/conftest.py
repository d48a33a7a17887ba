"""What programs are traced against without a cluster: eight devices of plain JAX, seven of which play the cluster's."""

from __future__ import annotations

from collections.abc import Iterator

import jax
import pytest
from jax.extend import backend
from pathways import _fusing, _program_calls

from tests.unit.client.local_programs import LocalRunner


@pytest.fixture(scope="module")
def eight_devices() -> Iterator[None]:
    """For the tests of a module; what programs still compile in the background ends with them."""
    before = jax.config.jax_num_cpu_devices, jax.config.jax_platforms
    backend.clear_backends()
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", 8)
    yield
    assert _fusing.settle(120)
    backend.clear_backends()
    jax.config.update("jax_num_cpu_devices", before[0])
    jax.config.update("jax_platforms", before[1])


@pytest.fixture
def runner(monkeypatch: pytest.MonkeyPatch) -> LocalRunner:
    """The first seven devices are the cluster; the last one, and what lies there, is somebody else's."""
    local = LocalRunner(range(7))
    monkeypatch.setattr(_program_calls, "runner", lambda: local)
    return local
