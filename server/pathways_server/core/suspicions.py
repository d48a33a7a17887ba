"""Reported failures that wait a moment for their cause; follow_on.py says which and how long."""

from __future__ import annotations

from typing import NamedTuple

from pathways_common.model.failure import Failure
from pathways_common.model.ids import Epoch

from .events import ExecutorLost, NodeFailed
from .read_records import Fetch, Wait
from .records import Gang, Host, Transfer
from .walk_records import Look


class BrokenGroup(NamedTuple):
    """A member whose collectives lost their connection: no later one of this epoch can work. The gang keeps its place, too."""

    host: Host
    epoch: Epoch
    gang: Gang


class AbortedMember(NamedTuple):
    """A member whose executor aborted, which is also what it does when the coordination service on rank 0's host is gone."""

    host: Host
    report: ExecutorLost


class SuspectedGang(NamedTuple):
    """A gang that failed on a host for want of bytes from another one. It keeps its place in the window meanwhile."""

    host: Host
    gang: Gang
    report: NodeFailed


class Suspicion(NamedTuple):
    """A reported failure that may only follow from something worse that is not known yet."""

    deadline_ns: int
    subject: Fetch | Wait | Look | Transfer | BrokenGroup | AbortedMember | SuspectedGang
    failure: Failure
    since_ns: int = 0  # when it began to wait for a host without a connection
