"""Stock JAX's callbacks through the wrapped compile step: the program is compiled with stand-ins that know nothing but ids."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pathways import _arrays, _callbacks, _jax, errors
from pathways._callback_stream import answer, failure_of
from pathways_proto.v1 import sessions_pb2


class _Host:
    """A CallbackHost without a stream."""

    def __init__(self) -> None:
        self.table = _callbacks.CallbackTable()
        self.failures: list[Any] = []

    def add(self, callables: Any) -> list[int]:
        return self.table.add(callables)

    def stand_in(self, identifier: int) -> Callable[..., Any]:
        """What an executor does: messages out, messages back."""

        def call(*operands: Any) -> tuple[Any, ...]:
            request = sessions_pb2.CallbackRequest(callback_id=identifier, operands=_arrays.from_numpy(operands))
            result = answer(sessions_pb2.CallbackRequest.FromString(request.SerializeToString()), self.table.find)
            if result.HasField("failure"):
                self.failures.append(result.failure)
                raise RuntimeError(result.failure.message)
            return tuple(_arrays.to_numpy(result.results))

        return call


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Iterator[_Host]:
    """JAX's local CPU client plays the cluster."""
    host = _Host()
    monkeypatch.setattr(_jax, "is_ours", lambda client: True)

    def wrapper(original: _jax.Compile) -> _jax.Compile:
        def cluster(backend: Any, module: Any, devices: Any, options: Any, callbacks: Any) -> Any:
            assert not callbacks, "the proxy client accepts none"
            overrides = dict(options.env_option_overrides)
            named = overrides.pop(_callbacks.OPTION, "")
            options.env_option_overrides = list(overrides.items())
            stand_ins = [host.stand_in(int(identifier)) for identifier in named.split(",") if identifier]
            return original(backend, module, devices, options, stand_ins)

        return _callbacks.compile_with_callbacks(cluster, lambda: host)  # type: ignore[arg-type, return-value]

    undo = _jax.wrap_compile(wrapper)
    yield host
    undo()
    jax.clear_caches()


def test_pure_callback_gives_what_numpy_gives(host: _Host) -> None:
    def call(x: jax.Array) -> jax.Array:
        return jax.pure_callback(lambda a: np.sort(a), jax.ShapeDtypeStruct(x.shape, x.dtype), x) * 2

    x = np.array([3.0, 1.0, 2.0], np.float32)
    assert np.array_equal(jax.jit(call)(x), np.sort(x) * 2)


def test_debug_print_and_callback_run_once_per_call(host: _Host, capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[float] = []

    @jax.jit
    def step(x: jax.Array) -> jax.Array:
        jax.debug.print("x is {x}", x=x)
        jax.debug.callback(lambda value: seen.append(float(value)), x)
        return x + 1

    for value in range(3):
        step(jnp.float32(value))
    jax.effects_barrier()
    assert sorted(seen) == [0.0, 1.0, 2.0]
    assert sorted(capsys.readouterr().out.splitlines()) == ["x is 0.0", "x is 1.0", "x is 2.0"]


def test_ordered_io_callback_keeps_order_and_its_token(host: _Host) -> None:
    seen: list[int] = []

    def record(value: Any) -> np.ndarray[Any, Any]:
        seen.append(int(value))
        return np.int32(len(seen))  # type: ignore[return-value]

    @jax.jit
    def loop(n: jax.Array) -> jax.Array:
        def body(i: jax.Array, total: jax.Array) -> jax.Array:
            return total + jax.experimental.io_callback(record, jax.ShapeDtypeStruct((), jnp.int32), i, ordered=True)

        return jax.lax.fori_loop(0, n, body, jnp.int32(0))

    assert int(loop(jnp.int32(5))) == 1 + 2 + 3 + 4 + 5
    assert seen == [0, 1, 2, 3, 4]


def test_exception_arrives_with_type_text_and_the_users_line(host: _Host) -> None:
    def broken(value: Any) -> Any:
        raise KeyError("no such thing: INTERNAL")

    call = jax.jit(lambda x: jax.pure_callback(broken, jax.ShapeDtypeStruct((), jnp.float32), x))
    with pytest.raises(jax.errors.JaxRuntimeError):
        call(jnp.float32(1)).block_until_ready()
    failure = host.failures[0]
    assert failure.reason == "USER_ERROR"
    assert "KeyError: 'no such thing: INTERNAL'" in failure.message
    assert failure.metadata["type"] == "KeyError"
    assert failure.metadata["function"] == "broken"
    assert failure.metadata["file"].endswith("test_callbacks.py")
    assert int(failure.metadata["line"]) == broken.__code__.co_firstlineno + 1


def test_callback_may_use_jax_itself(host: _Host) -> None:
    def square(value: Any) -> Any:
        return np.asarray(jax.jit(lambda a: a * a)(jnp.asarray(value)))

    call = jax.jit(lambda x: jax.pure_callback(square, jax.ShapeDtypeStruct((), jnp.float32), x))
    assert float(call(jnp.float32(3))) == 9.0


def test_programs_without_callbacks_and_other_clients_are_left_alone(host: _Host, monkeypatch: pytest.MonkeyPatch) -> None:
    assert int(jax.jit(lambda x: x + 1)(1)) == 2
    assert len(host.table) == 0
    monkeypatch.setattr(_jax, "is_ours", lambda client: False)
    passed: list[Any] = []
    step = _callbacks.compile_with_callbacks(lambda *arguments: passed.append(arguments), lambda: host)  # type: ignore[arg-type, return-value]
    step("client", "module", "devices", "options", ["callable"])
    assert passed == [("client", "module", "devices", "options", ["callable"])]


def test_callables_are_kept_with_their_executable_and_forgotten_after_it() -> None:
    table = _callbacks.CallbackTable(retired_max=1)

    def make(value: int) -> Callable[[], int]:
        return lambda: value

    first, second = make(1), make(2)
    identifiers = table.add([first, second])
    gc.collect()
    assert [table.find(identifier)() for identifier in identifiers] == [1, 2]  # type: ignore[misc]
    del first
    gc.collect()
    assert len(table) == 1
    remembered = table.find(identifiers[0])
    assert remembered is not None, "an execution may still be under way"
    assert remembered() == 1
    del second, remembered
    gc.collect()
    assert len(table) == 0
    assert table.find(identifiers[0]) is None
    assert table.find(identifiers[1]) is not None


def test_jax_drops_callables_when_it_drops_the_program(host: _Host) -> None:
    call = jax.jit(lambda x: jax.pure_callback(lambda a: a, jax.ShapeDtypeStruct((), jnp.float32), x))
    call(jnp.float32(1))
    gc.collect()
    assert len(host.table) == 1
    del call
    gc.collect()
    assert len(host.table) == 0


def test_failed_compilation_keeps_nothing(host: _Host) -> None:
    class Options:
        env_option_overrides: tuple[Any, ...] = ()

    def refuse(*arguments: Any) -> Any:
        raise ValueError("no")

    step = _callbacks.compile_with_callbacks(refuse, lambda: host)  # type: ignore[arg-type, return-value]
    options = Options()
    with pytest.raises(ValueError, match="no"):
        step(None, None, None, options, [lambda: None])
    assert list(options.env_option_overrides) == []
    assert len(host.table) == 0


def test_unknown_id_is_a_failure_and_not_an_exception() -> None:
    result = answer(sessions_pb2.CallbackRequest(call_id=5, callback_id=99), lambda identifier: None)
    assert result.call_id == 5
    assert "callback 99" in result.failure.message


def test_long_texts_are_cut_to_what_a_failure_may_hold() -> None:
    failure = failure_of(ValueError("ä" * 10**6))
    assert len(failure.message.encode()) <= 65536
    assert sum(len(value.encode()) for value in failure.metadata.values()) <= 4096


def test_callbacks_with_a_foreign_door_are_refused_with_a_sentence() -> None:
    from pathways import _plugin

    with pytest.raises(errors.UnsupportedError, match="unset JAX_BACKEND_TARGET"):
        _plugin.callback_host()
