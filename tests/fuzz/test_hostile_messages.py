"""Changed messages of a recorded session, to a door and to a controller, with everything real in this process but the hosts.

The same cases every time; `make fuzz` looks for others. A case that fails prints its steps, which `fuzz.py --steps` runs again.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.examples import ControllerCase, DoorCase, Step, more_operations
from tests.fuzz.recording import KEPT, Recorded

STEPS = st.lists(st.builds(Step, st.integers(0, 999), st.integers(0, 2**32 - 1)), min_size=1, max_size=6)
SAME = settings(
    max_examples=150, deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture(scope="module")
def recorded() -> Recorded:
    return Recorded.read(KEPT)


@pytest.fixture(scope="module")
def door(recorded: Recorded) -> DoorCase:
    return DoorCase(recorded)


@pytest.fixture(scope="module")
def controller(recorded: Recorded) -> ControllerCase:
    return ControllerCase(recorded, more_operations())


def test_the_recording_holds_what_a_session_is_made_of(recorded: Recorded, door: DoorCase) -> None:
    members = {message.WhichOneof("request") for message in door.messages}
    assert {
        "init_request", "compile_request", "loaded_executable_execute_request", "make_array_from_host_buffer_request",
        "make_arrays_from_host_buffer_shards_request", "copy_to_host_buffer_request", "delete_array_request",
        "assemble_array_from_single_device_arrays_request", "copy_arrays_request", "check_future_request",
    } <= members, members  # fmt: skip
    assert {"execute", "make_array", "compile", "fetch", "release"} <= {
        each.WhichOneof("operation") for each in recorded.operations
    }


def test_the_recording_is_answered_when_it_is_played_again(door: DoorCase, controller: ControllerCase) -> None:
    door.run([])
    controller.run([])


@SAME
@given(steps=STEPS)
def test_a_door_answers_every_changed_message_and_harms_nobody(door: DoorCase, steps: list[Step]) -> None:
    door.run(steps)


@SAME
@given(steps=STEPS)
def test_a_controller_takes_or_refuses_every_changed_message_and_harms_nobody(
    controller: ControllerCase, steps: list[Step]
) -> None:
    controller.run(steps)
