"""The numbering of answers, by rule 3.1 of the protocol facts, read back with protobuf itself."""

from __future__ import annotations

from pathways_door.envelope import UNCOUNTED, Envelope, empty_member, varint
from pathways_proto.ifrt import session_pb2, status_pb2


def _read(raw: bytes) -> session_pb2.IfrtResponse:
    return session_pb2.IfrtResponse.FromString(raw)


EMPTY = empty_member("loaded_executable_execute_response")


def test_answers_are_numbered_from_zero_without_gaps() -> None:
    envelope = Envelope()
    answers = [_read(envelope.answer(op, 100 + op, EMPTY)) for op in range(1, 400)]
    assert [a.response_metadata.seq_num for a in answers] == list(range(399))
    assert [a.response_metadata.op_id for a in answers] == list(range(1, 400))
    assert all(list(a.response_metadata.destroyed_user_context_ids) == [100 + op] for op, a in enumerate(answers, 1))


def test_member_is_set_even_if_it_is_empty() -> None:
    answer = _read(Envelope().answer(7, 0, EMPTY))
    assert answer.WhichOneof("response") == "loaded_executable_execute_response"
    assert answer.response_metadata.status.code == 0


def test_init_and_deletes_take_no_number() -> None:
    envelope = Envelope()
    init = _read(envelope.answer(1, 0, empty_member("init_response"), counted=False))
    assert init.response_metadata.seq_num == UNCOUNTED
    destruct = _read(envelope.answer(2, 0, empty_member("destruct_array_response"), counted=False))
    assert destruct.response_metadata.seq_num == UNCOUNTED
    assert _read(envelope.answer(3, 9, EMPTY)).response_metadata.seq_num == 0


def test_context_of_a_failure_rides_on_the_next_numbered_answer() -> None:
    envelope = Envelope()
    failed = _read(envelope.refuse(1, 41, status_pb2.StatusProto(code=13, message="no")))
    assert failed.WhichOneof("response") is None
    assert failed.response_metadata.status.message == "no"
    assert list(failed.response_metadata.destroyed_user_context_ids) == []
    answer = _read(envelope.answer(2, 42, EMPTY))
    assert answer.response_metadata.seq_num == 0
    assert list(answer.response_metadata.destroyed_user_context_ids) == [41, 42]


def test_zero_is_never_reported_and_nothing_twice() -> None:
    envelope = Envelope()
    for op in range(5):
        assert list(_read(envelope.answer(op, 0, EMPTY)).response_metadata.destroyed_user_context_ids) == []
    big = (1 << 64) - 1
    assert list(_read(envelope.answer(9, big, EMPTY)).response_metadata.destroyed_user_context_ids) == [big]
    assert list(_read(envelope.answer(10, 0, EMPTY)).response_metadata.destroyed_user_context_ids) == []


def test_many_contexts_are_packed_like_protobuf_does() -> None:
    envelope = Envelope()
    for op in range(1, 301):
        envelope.refuse(op, op, status_pb2.StatusProto(code=3))
    answer = _read(envelope.answer(301, 301, EMPTY))
    assert list(answer.response_metadata.destroyed_user_context_ids) == list(range(1, 302))
    assert varint(300) == b"\xac\x02"
