"""Elastic training on five local devices that play three islands: what lies on one that is lost is deleted, whoever has it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pathways as pw
import pytest
from pathways import _fleet, _snapshots
from pathways._waiting import Waiting
from pathways_common.model.failure import Failure, Reason

COUNT = 8
pytestmark = pytest.mark.usefixtures("eight_devices")


def loss_of(weights: Any, batch: Any) -> Any:
    inputs, wanted = batch
    return jnp.mean((jnp.tanh(inputs @ weights["w"]) - wanted) ** 2)


def batches(steps: int) -> list[tuple[np.ndarray, np.ndarray]]:
    random = np.random.default_rng(3)
    return [
        (random.standard_normal((16, 6)).astype(np.float32), random.standard_normal((16, 3)).astype(np.float32))
        for _ in range(steps)
    ]


def first_state() -> dict[str, Any]:
    weights = np.random.default_rng(4).standard_normal((6, 3)).astype(np.float32)
    return {"weights": {"w": weights}, "momentum": {"w": np.zeros((6, 3), np.float32)}, "key": jax.random.key(5)}


@cache
def make_step(count: int = COUNT) -> Callable[[Any, Any], tuple[Any, Any]]:
    """Momentum, some noise of a random key that the state carries, and a state that is donated."""
    gradients_of = pw.microbatched(jax.jit(jax.value_and_grad(loss_of)), count)

    def changed(state: Any, gradients: Any) -> Any:
        key, noise = jax.random.split(state["key"])
        momentum = jax.tree.map(lambda m, g: 0.9 * m + g, state["momentum"], gradients)
        weights = jax.tree.map(lambda w, m: w - 0.1 * m + 1e-3 * jax.random.normal(noise, w.shape), state["weights"], momentum)
        return {"weights": weights, "momentum": momentum, "key": key}

    update = jax.jit(changed, donate_argnums=0)

    def step(state: Any, batch: Any) -> tuple[Any, Any]:
        loss, gradients = gradients_of(state["weights"], batch)
        return update(state, gradients), loss

    return step


def undisturbed(steps: int, step: Callable[[Any, Any], tuple[Any, Any]] | None = None) -> list[str]:
    step = step or make_step()
    state, losses = jax.device_put(first_state()), []
    for batch in batches(steps):
        state, loss = step(state, batch)
        losses.append(float(loss).hex())
    return losses


class Islands:
    """Three of them, with two devices, two and one. `lose_at` says before which calls of the step which of them is lost."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        devices = jax.devices()
        self.groups = [devices[:2], devices[2:4], devices[4:5]]
        self.lose_at: dict[int, int] = {}
        self.away: dict[str, threading.Event] = {}
        self.calls = 0
        self.trainer: pw.Elastic[Any] | None = None

        def ask_back(group: _fleet.Group) -> None:
            came = self.away.setdefault(group.name, threading.Event())

            def landed() -> Any:
                assert came.wait(60)
                return jax.device_put(np.zeros(1, np.float32), group._device).block_until_ready()

            group._back = Waiting(landed)

        monkeypatch.setattr(_fleet.Group, "_ask_back", ask_back)

    def elastic(self, step: Callable[[Any, Any], tuple[Any, Any]], **options: Any) -> pw.Elastic[Any]:
        def disturbed(state: Any, batch: Any) -> tuple[Any, Any]:
            self.calls += 1
            returned = step(state, batch)
            number = self.lose_at.pop(self.calls, None)
            if number is not None:
                self.lose(number)
            return returned

        self.trainer = pw.elastic(disturbed, devices=self.groups, **options)
        return self.trainer

    def lose(self, number: int) -> None:
        """Takes its arrays away and tells of it as a read of one would."""
        assert self.trainer is not None
        gone = set(self.groups[number])
        for array in jax.live_arrays():
            if not array.is_deleted() and array.devices() & gone:
                array.delete()
        group = self.trainer._fleet.groups[number]
        raise _fleet.GroupLostError(group, pw.errors.BufferLostError(f"{group.name} is lost"))

    def bring_back(self, number: int) -> None:
        assert self.trainer is not None
        group = self.trainer._fleet.groups[number]
        self.away.pop(group.name).set()
        assert group._back is not None
        assert group._back.is_over(30)


@pytest.fixture
def islands(monkeypatch: pytest.MonkeyPatch) -> Iterator[Islands]:
    made = Islands(monkeypatch)
    yield made
    for came in made.away.values():
        came.set()


def run(trainer: pw.Elastic[Any], steps: int, between: Callable[[int], None] = lambda number: None) -> list[str]:
    state, losses = first_state(), []
    for number, batch in enumerate(batches(steps), 1):
        between(number)
        state, loss = trainer(state, batch)
        losses.append(float(loss).hex())
    return losses


# ---- microbatches -----------------------------------------------------------------------------------------------------------


def test_microbatches_are_added_in_pairs_whatever_their_number() -> None:
    values = np.array([1e8, 1, -1e8, 1, 1, 1], np.float32)
    f = list(values)
    expected = (((f[0] + f[1]) + (f[2] + f[3])) + (f[4] + f[5])) / np.float32(6)
    in_a_row = ((((f[0] + f[1]) + f[2]) + f[3]) + f[4]) + f[5]
    assert float(in_a_row / np.float32(6)) != float(expected), "the order must show"
    assert float(pw.microbatched(lambda part: part[0] * jnp.float32(1), 6)(values)) == float(expected)


def test_the_mean_over_microbatches_is_the_gradient_of_the_whole_batch() -> None:
    weights, batch = first_state()["weights"], batches(1)[0]
    loss, gradients = pw.microbatched(jax.value_and_grad(loss_of), 4)(weights, batch)
    whole, whole_gradients = jax.value_and_grad(loss_of)(weights, batch)
    np.testing.assert_allclose(loss, whole, rtol=1e-6)
    np.testing.assert_allclose(gradients["w"], whole_gradients["w"], rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize(
    ("count", "batch", "words"),
    [
        (3, np.zeros((8, 2)), r"no 3 equal parts"),
        (2, (np.zeros((8, 2)), np.zeros(4)), r"\[8, 2\], \[4\]"),
        (2, np.float32(1), "no 2 equal parts"),
    ],
)
def test_a_batch_that_cannot_be_cut_is_refused(count: int, batch: Any, words: str) -> None:
    with pytest.raises(pw.errors.InvalidArgumentError, match=words):
        pw.microbatched(lambda part: part, count)(batch)


# ---- training ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 3, 5])
def test_losses_are_the_same_to_the_bit_on_any_number_of_devices(count: int) -> None:
    trainer = pw.elastic(make_step(), devices=jax.devices()[:count])
    assert run(trainer, 12) == undisturbed(12)
    assert len(trainer.devices) == count


@pytest.mark.parametrize(("lost", "at"), [(0, 1), (0, 4), (1, 6), (2, 7)])
def test_the_loss_of_any_island_at_any_step_changes_nothing(islands: Islands, lost: int, at: int) -> None:
    trainer = islands.elastic(make_step(), snapshot_every=3)
    islands.lose_at = {at: lost}
    assert run(trainer, 10) == undisturbed(10)
    assert trainer.restored == 1
    assert not set(trainer.devices) & set(islands.groups[lost])


def test_a_loss_while_the_first_snapshot_is_taken_puts_the_state_once_more(
    islands: Islands, monkeypatch: pytest.MonkeyPatch
) -> None:
    take, numbers = _snapshots.take, [1]  # on the first the given key of random numbers lies

    def taken(fleet: _fleet.Fleet, state: Any, steps: int) -> _snapshots.Snapshot:
        if numbers:
            islands.lose(numbers.pop())
        return take(fleet, state, steps)

    monkeypatch.setattr(_snapshots, "take", taken)
    trainer = islands.elastic(make_step(), snapshot_every=3)
    assert run(trainer, 6) == undisturbed(6)
    assert trainer.restored == 0
    assert not set(trainer.devices) & set(islands.groups[1])


def test_an_error_that_names_a_host_loses_its_island(islands: Islands) -> None:
    good, failures = make_step(), [Failure(Reason.SLICE_LOST, "host b7 was lost", host="b7", retryable=True)]

    def step(state: Any, batch: Any) -> tuple[Any, Any]:
        returned = good(state, batch)
        if islands.calls == 4 and failures:
            raise pw.errors.from_failure(failures.pop())
        return returned

    trainer = islands.elastic(step, snapshot_every=3)
    trainer._fleet.groups[1].hosts = frozenset({"b7", "b8"})
    assert run(trainer, 6) == undisturbed(6)
    assert trainer.restored == 1
    assert not set(trainer.devices) & set(islands.groups[1])


def test_a_loss_that_no_island_owns_to_is_repeated_on_all_of_them(islands: Islands) -> None:
    good, failures = make_step(), [pw.errors.BufferLostError("something was lost")]

    def step(state: Any, batch: Any) -> tuple[Any, Any]:
        returned = good(state, batch)
        if islands.calls == 5 and failures:
            raise failures.pop()
        return returned

    trainer = islands.elastic(step, snapshot_every=3)
    assert run(trainer, 6) == undisturbed(6)
    assert (trainer.restored, len(trainer.devices)) == (1, 5)


def test_a_loss_that_comes_with_every_try_is_raised_in_the_end(islands: Islands) -> None:
    def step(state: Any, batch: Any) -> tuple[Any, Any]:
        raise pw.errors.SliceLostError("again")

    with pytest.raises(pw.errors.SliceLostError, match="again"):
        islands.elastic(step)(first_state(), batches(1)[0])


def test_one_island_after_the_other_is_lost_and_comes_back(islands: Islands) -> None:
    trainer = islands.elastic(make_step(), snapshot_every=4)
    islands.lose_at = {5: 0, 9: 1, 30: 2}
    counts = []

    def between(number: int) -> None:
        counts.append(len(trainer.devices))
        if number == 14:
            islands.bring_back(0)
        if number == 16:
            islands.bring_back(1)

    assert run(trainer, 30, between) == undisturbed(30)
    assert trainer.restored == 3
    assert {1, 3, 5} <= set(counts)
    assert set(trainer.devices) == {*islands.groups[0], *islands.groups[1]}


def test_the_last_island_is_waited_for_and_its_state_is_kept_by_the_client(islands: Islands) -> None:
    islands.groups = islands.groups[:1]
    trainer = islands.elastic(make_step(), snapshot_every=3)
    islands.lose_at = {5: 0}
    away = islands.away.setdefault("group 0", threading.Event())
    timer = threading.Timer(0.2, away.set)
    timer.start()
    assert run(trainer, 8) == undisturbed(8)
    assert trainer.restored == 1
    timer.join()


def test_too_few_devices_for_too_long_are_an_error_that_names_what_is_missing(islands: Islands) -> None:
    trainer = islands.elastic(make_step(), min_devices=4, wait_s=0.3)
    islands.lose_at = {3: 0}
    with pytest.raises(pw.errors.UnavailableError, match=r"3 devices were left for 0\.3 s and min_devices is 4: group 0"):
        run(trainer, 5)


def test_without_a_snapshot_the_checkpoint_is_used_and_batches_are_kept_back_to_it(islands: Islands) -> None:
    step = make_step()
    saved: dict[str, Any] = {}

    def checkpoint() -> tuple[Any, int]:
        return {**saved, "key": jax.random.wrap_key_data(saved["key"])}, 5

    islands.groups = islands.groups[:2]
    trainer = islands.elastic(step, snapshot_every=2, checkpoint=checkpoint)
    state, losses = first_state(), []
    for number, batch in enumerate(batches(12), 1):
        if number == 10:  # both at once: nothing is left on devices
            for group in trainer._fleet.groups:
                trainer._fleet._lose(group)
            for snapshot in trainer._snapshots:
                for group in trainer._fleet.groups:
                    snapshot.lose(group)
            for each in (0, 1):
                islands.bring_back(each)
            islands.lose_at = {10: 0}
            # Made here: the step may be slower than the timer.
            threading.Timer(0.2, islands.away.setdefault("group 0", threading.Event()).set).start()
        state, loss = trainer(state, batch)
        losses.append(float(loss).hex())
        if number == 5:
            saved |= jax.device_get(state | {"key": jax.random.key_data(state["key"])})
            trainer.checkpointed(number)
    assert losses == undisturbed(12)


def test_without_a_checkpoint_either_the_error_says_what_to_do(islands: Islands) -> None:
    islands.groups = islands.groups[:2]
    trainer = islands.elastic(make_step(), snapshot_every=2)
    state = first_state()
    for number, batch in enumerate(batches(5), 1):
        if number == 4:
            for snapshot in trainer._snapshots:
                for group in trainer._fleet.groups:
                    snapshot.lose(group)
            islands.lose_at = {4: 1}
        if number == 4:
            with pytest.raises(pw.errors.BufferLostError, match=r"step 4 has no state to go on from: .*checkpoint"):
                trainer(state, batch)
            return
        state, _ = trainer(state, batch)


def test_an_error_of_the_step_is_raised_and_a_state_given_anew_begins_anew(islands: Islands) -> None:
    good = make_step()

    def step(state: Any, batch: Any) -> tuple[Any, Any]:
        if np.isnan(batch[0]).any():
            raise ValueError("no numbers")
        return good(state, batch)

    trainer = islands.elastic(step, snapshot_every=3)
    state = first_state()
    for batch in batches(4):
        state, _ = trainer(state, batch)
    with pytest.raises(ValueError, match="no numbers"):
        trainer(state, (np.full((16, 6), np.nan, np.float32), batches(1)[0][1]))
    assert run(trainer, 6) == undisturbed(6)
    assert trainer.restored == 0


def test_batches_are_kept_for_two_snapshots_at_most(islands: Islands) -> None:
    trainer = islands.elastic(make_step(), snapshot_every=3)
    run(trainer, 20, lambda number: None if len(trainer._batches) <= 6 else pytest.fail(f"{len(trainer._batches)} are kept"))


def test_buffers_that_a_loader_uses_again_are_copied(islands: Islands) -> None:
    trainer = islands.elastic(make_step(), snapshot_every=5)
    islands.lose_at = {8: 1}
    state, losses = first_state(), []
    inputs, wanted = np.empty((16, 6), np.float32), np.empty((16, 3), np.float32)
    for new_inputs, new_wanted in batches(10):
        inputs[:], wanted[:] = new_inputs, new_wanted
        state, loss = trainer(state, (inputs, wanted))
        losses.append(float(loss).hex())
    assert losses == undisturbed(10)
    assert trainer.restored == 1


def test_a_replica_of_several_devices_gives_the_same_on_any_number_of_replicas(islands: Islands) -> None:
    """Bit-equal among themselves: the sum inside a replica is the mesh's own."""
    alone = run(pw.elastic(make_step(4), devices=jax.devices()[:2], mesh={"data": 2}), 9)
    trainer = islands.elastic(make_step(4), snapshot_every=4, mesh={"data": 2})
    assert len(trainer.devices) == 4, "the island of one device has no mesh of two"
    islands.lose_at = {6: 0}
    assert run(trainer, 9) == alone
    assert len(trainer.devices) == 2
    np.testing.assert_allclose(
        [float.fromhex(loss) for loss in alone], [float.fromhex(loss) for loss in undisturbed(9, make_step(4))], rtol=1e-4
    )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"snapshot_every": 0}, "snapshot_every is 0"),
        ({"min_devices": True}, "min_devices is True"),
        ({"min_devices": 99}, "min_devices is 99 and 8 devices are in view"),
        ({"mesh": {"data": 9}}, "no island has the devices for one mesh of 9"),
        ({"mesh": {}}, "it gives each axis a size"),
    ],
)
def test_what_makes_no_sense_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(pw.errors.InvalidArgumentError, match=words):
        pw.elastic(make_step(), **options)


def test_a_step_that_returns_no_pair_is_refused() -> None:
    with pytest.raises(pw.errors.InvalidArgumentError, match="the step returned dict; return a state and something else"):
        pw.elastic(lambda state, batch: state)(first_state(), batches(1)[0])  # type: ignore[arg-type, return-value]
