"""`errors.of` reads the last line that the door writes, and nothing else of the text."""

from __future__ import annotations

import pytest
from pathways import errors
from pathways_common.model.failure import Failure, Reason
from pathways_door.errors import text_of


@pytest.mark.parametrize("reason", list(Reason))
def test_every_reason_has_a_class_of_its_own(reason: Reason) -> None:
    error = errors.from_failure(Failure(reason, "words"))
    assert type(error) is not errors.PathwaysError
    assert error.reason is reason
    assert str(error) == "words"


def test_every_error_is_a_runtime_error() -> None:
    assert issubclass(errors.PathwaysError, RuntimeError)


def test_last_line_gives_class_host_and_id() -> None:
    text = "DATA_LOSS: host a1 is gone\nand its values\n[pathways reason=SLICE_LOST host=a1 id=f-12]"
    error = errors.of(RuntimeError(text))
    assert isinstance(error, errors.SliceLostError)
    assert (error.host, error.id, str(error)) == ("a1", "f-12", "host a1 is gone\nand its values")
    assert error.retryable


def test_line_without_host_or_id_is_understood() -> None:
    error = errors.of(RuntimeError("INVALID_ARGUMENT: no\n[pathways reason=COMPILE_ERROR host=- id=-]"))
    assert isinstance(error, errors.CompileError)
    assert (error.host, error.id) == ("", "")
    assert isinstance(errors.of(RuntimeError("no\n[pathways reason=DELETED]")), errors.DeletedError)


def test_text_added_behind_the_line_does_not_hide_it() -> None:
    error = errors.of(RuntimeError("UNKNOWN: boom\n[pathways reason=USER_ERROR host=a0 id=1]; while fetching"))
    assert isinstance(error, errors.UserError)
    assert str(error) == "boom"


def test_the_last_of_two_lines_counts() -> None:
    text = "UNKNOWN: user said\n[pathways reason=SLICE_LOST host=x id=1]\n[pathways reason=USER_ERROR host=a0 id=2]"
    error = errors.of(RuntimeError(text))
    assert isinstance(error, errors.UserError)
    assert error.host == "a0"


def test_broken_status_words_of_a_user_are_mended() -> None:
    said = "I\u200bNTERNAL and D\u200bATA_LOSS, N\u200bOT_FOUND, D\u200bEADLINE_EXCEEDED"
    error = errors.of(RuntimeError(f"UNKNOWN: ValueError: {said}\n[pathways reason=USER_ERROR host=a0 id=2]"))
    assert str(error) == "ValueError: INTERNAL and DATA_LOSS, NOT_FOUND, DEADLINE_EXCEEDED"


def test_words_of_others_are_left_as_they_are() -> None:
    error = errors.of(RuntimeError("INTERNAL: I\u200bNTERNAL\n[pathways reason=INTERNAL host= id=]"))
    assert str(error) == "I\u200bNTERNAL"


def test_cause_of_a_wrapped_exception_is_found() -> None:
    cause = errors.UnauthenticatedError("no token")
    wrapped = RuntimeError("Unable to initialize backend 'proxy'")
    wrapped.__cause__ = cause
    assert errors.of(wrapped) is cause


def test_broken_connection_is_unavailable_and_other_text_an_execution_error() -> None:
    assert isinstance(errors.of(RuntimeError("UNAVAILABLE: connection lost")), errors.UnavailableError)
    assert isinstance(errors.of(ValueError("7 is odd")), errors.ExecutionError)


def test_unknown_reason_is_not_guessed() -> None:
    assert isinstance(errors.of(RuntimeError("x\n[pathways reason=NEW_THING host= id=]")), errors.ExecutionError)


@pytest.mark.parametrize("reason", list(Reason))
def test_what_the_door_writes_comes_back_whole(reason: Reason) -> None:
    failure = Failure(reason, "KeyError: 'DATA_LOSS'\nand INTERNAL more", host="a1", id="f-9")
    error = errors.of(RuntimeError(f"UNKNOWN: {text_of(failure)}"))
    assert (error.reason, str(error), error.host, error.id) == (reason, failure.message, "a1", "f-9")
