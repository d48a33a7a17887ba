"""Failures that leave a host name it, and each has a name of its own by which it is found in logs."""

from __future__ import annotations

import secrets
from dataclasses import replace

from pathways_common.model.failure import Failure, Reason
from pathways_proto.v1 import types_pb2


class Attribution:
    """What one host puts into failures."""

    def __init__(self, host: str) -> None:
        self._host = host

    def lost(self, what: str) -> Failure:
        """A value went with its executor, of which `what` says what became."""
        sentence = f"the value is lost: the executor of host {self._host} that held it {what}"
        return Failure(Reason.BUFFER_LOST, sentence, host=self._host, id=secrets.token_hex(4))

    def named(self, failure: Failure) -> Failure:
        """The failure with host and id, unless it has them."""
        return replace(failure, host=failure.host or self._host, id=failure.id or secrets.token_hex(4))

    def attributed(self, failure: types_pb2.Failure) -> types_pb2.Failure:
        """The same for a message, in place."""
        if not failure.host:
            failure.host = self._host
        if not failure.id:
            failure.id = secrets.token_hex(4)
        return failure
