"""What a program refuses, and in what words: always with the user's file and line. Eight local CPU devices, no cluster."""

from __future__ import annotations

import inspect
from typing import Any

import jax
import numpy as np
import pathways as pw
import pytest
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from pathways import _program_calls

from tests.unit.client.local_programs import LocalRunner

pytestmark = pytest.mark.usefixtures("eight_devices", "runner")


def slice_of(start: int, count: int) -> list[Any]:
    return jax.devices()[start : start + count]


def line_of(function: Any, text: str) -> int:
    """The line of this file where `text` stands within a function."""
    lines, first = inspect.getsourcelines(function)
    return first + next(number for number, line in enumerate(lines) if text in line)


@pytest.mark.parametrize(
    "read",
    [
        lambda x: bool(x[0] > 1),
        lambda x: int(x[0]),
        lambda x: float(x[0]),
        lambda x: np.asarray(x),
        lambda x: np.sum(np.array(x)),
        lambda x: [1, 2][x.astype(int)[0]],
        lambda x: x[x > 1],
    ],
)
def test_reading_a_traced_value_is_refused_with_its_line(read: Any) -> None:
    a = jax.pmap(lambda x: x * 2.0, devices=slice_of(0, 2))

    @pw.program
    def f(v: Any) -> Any:
        return a(v), read(a(v))

    with pytest.raises(pw.errors.InvalidArgumentError) as caught:
        f(np.array([1.0, 2.0], np.float32))
    assert f"{__file__}:{read.__code__.co_firstlineno} (in" in str(caught.value)
    assert "static_argnums" in str(caught.value)


@pytest.mark.parametrize("ask", [lambda x: x.block_until_ready(), lambda x: x.copy_to_host_async(), lambda x: x.sharding])
def test_what_traced_arrays_do_not_have_is_refused_with_its_line(ask: Any) -> None:
    a = jax.pmap(lambda x: x * 2.0, devices=slice_of(0, 2))
    with pytest.raises(pw.errors.InvalidArgumentError, match=rf"{__file__}:{ask.__code__.co_firstlineno} \(in"):
        pw.program(lambda v: (a(v), ask(a(v)))[0], name="f")(np.ones(2, np.float32))


def test_attribute_errors_of_the_function_come_as_they_are() -> None:
    with pytest.raises(AttributeError, match="nothing"):
        pw.program(lambda v: v.nothing, name="f")(np.ones(2, np.float32))


def test_deleted_arrays_are_refused_in_words() -> None:
    lies = NamedSharding(Mesh(np.array(slice_of(0, 2)), ("x",)), P("x"))
    a = jax.jit(lambda x: x * 2.0, in_shardings=lies, out_shardings=lies)
    gone = jax.device_put(np.ones(2, np.float32), lies)
    f = pw.program(lambda v: a(v), name="f")
    g = pw.program(lambda v: a(v) + gone, name="g")
    f(gone), g(np.ones(2, np.float32))
    gone.delete()
    with pytest.raises(pw.errors.DeletedError, match=r"program f was called with an array float32\[2\] that was deleted"):
        f(gone)
    with pytest.raises(pw.errors.DeletedError, match="program g closes over an array"):
        g(np.ones(2, np.float32))


def test_compiled_programs_end_with_their_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    a = jax.pmap(lambda x: x * 2.0, devices=slice_of(0, 2))
    compiled = pw.program(lambda v: a(v), name="f").compile(np.ones(2, np.float32))
    compiled(np.ones(2, np.float32))
    later = LocalRunner(range(7))
    monkeypatch.setattr(_program_calls, "runner", lambda: later)
    with pytest.raises(pw.errors.InvalidArgumentError, match="program f was compiled in an earlier connection; compile it again"):
        compiled(np.ones(2, np.float32))


def test_positions_of_no_argument_are_refused() -> None:
    for word in ("static_argnums", "donate_argnums"):
        with pytest.raises(pw.errors.InvalidArgumentError, match=rf"{word} holds 5, which is the position of no argument"):
            pw.program(**{word: 5})(lambda v: v)
        pw.program(**{word: 5})(lambda *v: v)


def test_names_of_no_argument_are_refused() -> None:
    with pytest.raises(pw.errors.InvalidArgumentError, match="static_argnames holds 'tims', which is the name of no argument"):
        pw.program(static_argnames=("times", "tims"))(lambda v, times: v)
    pw.program(static_argnames="times")(lambda v, **more: v)


def test_function_on_no_slice_is_refused_with_its_line() -> None:
    plain = jax.jit(lambda x: x + 1)
    a = jax.pmap(lambda x: x * 2.0, devices=slice_of(0, 2))

    @pw.program
    def f(v: Any, w: Any) -> Any:
        return a(v), plain(w)

    with pytest.raises(pw.errors.InvalidArgumentError) as caught:
        f(np.ones(2), np.ones(2))
    assert str(caught.value).startswith(
        f"`plain`, called at {__file__}:{line_of(f._function, 'plain(w)')} in program f, is on no slice"
    )
    with pytest.raises(pw.errors.InvalidArgumentError, match=r"^`plain`, called at .* is on no slice"):
        pw.program(lambda v, w: (a(v), -plain(w) + 1))(np.ones(2), np.ones(2))


def test_program_of_no_node_is_refused_with_its_line() -> None:
    with pytest.raises(pw.errors.InvalidArgumentError, match=f"^`add`, called at {__file__}:.* is on no slice"):
        pw.program(lambda step: step + 1)(3)


def test_foreign_device_is_refused_with_its_line() -> None:
    a = jax.pmap(lambda x: x * 2.0, devices=slice_of(6, 2))

    @pw.program
    def f(v: Any) -> Any:
        return a(v)

    with pytest.raises(pw.errors.InvalidArgumentError) as caught:
        f(np.ones(2))
    assert f"`a`, called at {__file__}:{line_of(f._function, 'return a(v)')}" in str(caught.value)
    assert "no device of the cluster" in str(caught.value)


def test_ordered_effects_are_refused_with_their_line() -> None:
    a = jax.pmap(lambda x: x * 2.0, devices=slice_of(0, 2))

    @pw.program
    def f(v: Any) -> Any:
        jax.debug.print("{}", v, ordered=True)
        return a(v)

    with pytest.raises(pw.errors.UnsupportedError, match=rf"{__file__}:{line_of(f._function, 'ordered=True')}.*ordered"):
        f(np.ones(2))


def test_what_is_no_array_is_refused_in_words() -> None:
    f = pw.program(lambda v: v, name="f")
    with pytest.raises(pw.errors.InvalidArgumentError, match="called with str 'text', which is no array; make it static"):
        f("text")
    g = pw.program(lambda v: "text", name="g")
    with pytest.raises(pw.errors.InvalidArgumentError, match="returns str 'text'"):
        g(1.0)
    with pytest.raises(pw.errors.InvalidArgumentError, match="dispatch is 'both'"):
        pw.program(dispatch="both")


def test_errors_of_the_function_come_as_they_are() -> None:
    @pw.program
    def f(v: Any) -> Any:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        f(1.0)


def test_without_a_cluster_one_sentence_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    with pytest.raises(pw.errors.UnavailableError, match=r"a program runs on a cluster.*pw\.connect\(\)"):
        pw.program(lambda v: v, name="f")(1.0)
