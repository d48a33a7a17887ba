"""`pw.connect` and the plugin, with a second local CPU client in the part of the cluster. Each case has a JAX of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

_STAGE = """
import os, sys
import pathways as pw
from pathways import _connect, _door, _jax, _plugin
assert "jax" not in sys.modules, "importing pathways must stay cheap"

class FakeDoor:
    announcement = _door.Announcement("127.0.0.1:1", 7, 3)
    secret = "s"
    closed = 0
    def close(self):
        FakeDoor.closed += 1

started = []
def start_door(target, version, *rest):
    started.append(target)
    return FakeDoor()
_door.start_door = start_door

opened = []
def open_client(address, data, timeout_s):
    from jaxlib import xla_client
    opened.append((address, dict(data)))
    return xla_client.make_cpu_client(num_devices=3)
_jax.open_client = open_client
"""


def _run(script: str, **environment: str) -> subprocess.CompletedProcess[str]:
    foreign = ("JAX_", "XLA_", "IFRT_", "PATHWAYS_")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    clean |= {"PATHWAYS_STATE_DIR": "/nonexistent", **environment}
    program = _STAGE + textwrap.dedent(script)
    return subprocess.run([sys.executable, "-c", program], env=clean, capture_output=True, text=True, timeout=120, check=False)


def _assert_runs(script: str, **environment: str) -> None:
    done = _run(script, **environment)
    assert done.returncode == 0, done.stderr


def test_context_manager_shows_the_clusters_devices_and_leaves_jax_as_it_was() -> None:
    _assert_runs("""
        import jax
        before = (jax.config.jax_platforms, jax.config.jax_enable_compilation_cache, dict(os.environ))
        with pw.connect("grpc://127.0.0.1:29000", token="t", islands="all") as connection:
            assert (connection.session_number, connection.device_count) == (7, 3)
            assert jax.device_count() == 3
            assert jax.local_device_count("cpu") == 1
            assert float(jax.numpy.ones(3).sum()) == 3.0
            assert opened == [("grpc://127.0.0.1:1", {"pathways_door_secret": "s"})]
            assert (started[0].controller, started[0].token, started[0].islands) == ("127.0.0.1:29000", "t", "*")
        assert FakeDoor.closed == 1
        assert before == (jax.config.jax_platforms, jax.config.jax_enable_compilation_cache, dict(os.environ))
        assert [device.platform for device in jax.devices()] == ["cpu"]
        assert float(jax.numpy.ones(3).sum()) == 3.0
        """)


def test_connect_works_again_after_close() -> None:
    _assert_runs("""
        import jax
        for _ in range(2):
            with pw.connect("127.0.0.1:29000"):
                assert jax.device_count() == 3
        assert len(started) == FakeDoor.closed == 2
        """)


def test_exception_in_the_block_is_what_the_user_sees() -> None:
    _assert_runs("""
        try:
            with pw.connect("127.0.0.1:29000"):
                raise KeyError("mine")
        except KeyError:
            pass
        assert FakeDoor.closed == 1
        """)


def test_jax_initialised_before_connect_is_one_clear_sentence() -> None:
    _assert_runs("""
        import jax
        jax.devices()
        try:
            pw.connect("127.0.0.1:29000")
        except RuntimeError as error:
            assert isinstance(error, pw.errors.PathwaysError)
            assert "call pw.connect() before the first JAX call" in str(error), error
        else:
            raise AssertionError
        assert started == []
        """)


def test_second_connection_is_refused_while_one_is_open() -> None:
    _assert_runs("""
        with pw.connect("127.0.0.1:29000"):
            try:
                pw.connect("127.0.0.1:29001")
            except pw.errors.InvalidArgumentError as error:
                assert "connected already" in str(error)
            else:
                raise AssertionError
        """)


@pytest.mark.parametrize(("address", "words"), [("http://x:1", "is not an address"), (None, "no cluster is known")])
def test_wrong_or_missing_address_is_one_clear_sentence(address: str | None, words: str) -> None:
    _assert_runs(f"""
        try:
            pw.connect({address!r})
        except pw.errors.InvalidArgumentError as error:
            assert {words!r} in str(error), error
        else:
            raise AssertionError
        """)


def test_environment_gives_address_token_and_islands() -> None:
    _assert_runs(
        """
        pw.connect().close()
        assert (started[0].controller, started[0].token, started[0].islands) == ("10.0.0.1:5", "secret", "a,b")
        """,
        PATHWAYS_ADDRESS="grpc://10.0.0.1:5",
        PATHWAYS_TOKEN="secret",
        PATHWAYS_ISLANDS="a, b",
    )


def test_name_that_is_no_island_is_refused() -> None:
    _assert_runs("""
        try:
            pw.connect("127.0.0.1:29000", islands=["a", "b c"])
        except pw.errors.InvalidArgumentError as error:
            assert "'b c'" in str(error)
        else:
            raise AssertionError
        """)


def test_plugin_serves_a_plain_script_when_the_environment_asks() -> None:
    _assert_runs(
        """
        import jax
        assert jax.device_count() == 3
        assert jax.local_device_count("cpu") == 1, "callbacks need a local CPU device"
        assert started[0].controller == "10.0.0.1:5"
        """,
        JAX_PLATFORMS="proxy",
        PATHWAYS_ADDRESS="grpc://10.0.0.1:5",
    )


def test_plugin_does_nothing_when_nobody_asks() -> None:
    _assert_runs("""
        import jax
        jax.devices()
        from jax._src import xla_bridge
        assert "proxy" not in xla_bridge._backend_factories
        assert not _plugin.is_active() and started == []
        """)


def test_door_of_somebody_else_is_used_as_it_is() -> None:
    _assert_runs(
        """
        import jax
        assert jax.device_count() == 3
        assert opened == [("grpc://127.0.0.1:9", {})] and started == []
        """,
        JAX_PLATFORMS="proxy,cpu",
        JAX_BACKEND_TARGET="grpc://127.0.0.1:9",
    )


def test_new_client_after_clear_backends_gets_a_new_door() -> None:
    _assert_runs(
        """
        import jax
        from jax.extend.backend import clear_backends
        assert jax.device_count() == 3
        clear_backends()
        assert jax.device_count() == 3
        assert len(started) == 2 and FakeDoor.closed == 1
        """,
        JAX_PLATFORMS="proxy,cpu",
        PATHWAYS_ADDRESS="grpc://10.0.0.1:5",
    )


def test_failure_to_connect_is_the_cause_of_what_jax_raises() -> None:
    _assert_runs(
        """
        import jax
        def fail(*rest):
            raise pw.errors.UnauthenticatedError("no token was sent", at_start=True)
        _door.start_door = fail
        try:
            jax.devices()
        except RuntimeError as error:
            assert "no token was sent" in str(error)
            assert isinstance(pw.errors.of(error), pw.errors.UnauthenticatedError)
        else:
            raise AssertionError
        """,
        JAX_PLATFORMS="proxy,cpu",
        PATHWAYS_ADDRESS="grpc://10.0.0.1:5",
    )
