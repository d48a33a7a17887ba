"""Sessions by their ids, which are random and are all that it takes to go on with one; and why those that ended did."""

from __future__ import annotations

import time
from collections import OrderedDict
from typing import Generic, Protocol, TypeVar

from pathways_common.model.failure import Failure, Reason
from pathways_common.model.ids import SessionNumber
from pathways_proto.v1 import sessions_pb2

# Ends that are remembered: who comes back this late finds nothing but "no such session".
ENDED_MAX = 1024
_HOW = "connect again and run the program again, its values are gone"


class Known(Protocol):
    """What is kept by its id."""

    @property
    def session_id(self) -> str: ...

    @property
    def number(self) -> SessionNumber: ...


KnownT = TypeVar("KnownT", bound=Known)


class SessionIds(Generic[KnownT]):
    """Open sessions, and the last that ended."""

    def __init__(self, term: int) -> None:
        self._term = term
        self._open: dict[str, KnownT] = {}
        self._ended: OrderedDict[str, str] = OrderedDict()

    def add(self, session: KnownT) -> None:
        """It can be gone on with from now on."""
        self._open[session.session_id] = session

    def end(self, session: KnownT, reason: str) -> None:
        """It is over; the first reason is kept."""
        if self._open.pop(session.session_id, None) is None:
            return
        when = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
        self._ended[session.session_id] = f"session {session.number} ended at {when}: {reason}"
        while len(self._ended) > ENDED_MAX:
            self._ended.popitem(last=False)

    def find(self, hello: sessions_pb2.Hello) -> KnownT | Failure:
        """The session that a client wants to go on with, or what became of it in one sentence."""
        session = self._open.get(hello.session_id)
        if session is not None and hello.term <= self._term:  # maybe of an earlier life, which this one goes on with
            return session
        if hello.term and hello.term != self._term and hello.session_id not in self._ended:
            sentence = f"this is life {self._term} of the controller and not life {hello.term}, which the session is of: {_HOW}"
            return Failure(Reason.UNAVAILABLE, sentence, retryable=True)
        ended = self._ended.get(hello.session_id, "the controller does not know this session, or it ended long ago")
        return Failure(Reason.UNAVAILABLE, f"{ended}; {_HOW}", retryable=True)
