"""What is told of the values and programs that went with an epoch: what was lost, where it lay, and whose it was.

Every such failure has the id and the facts of the one cause. Arrays that lay alike and belong to one session share one.
"""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

from pathways_common.model.failure import Failure, Reason
from pathways_common.model.sizes import size_text

from .records import Buffer, Executable, Island, Placement
from .session_records import Session

_HOSTS_SHOWN = 4


class LostValues:
    """The failures of one lost epoch, made as they are needed."""

    def __init__(self, island: Island, cause: Failure) -> None:
        self._island = island
        self._cause = cause
        self._made: dict[tuple[int, int, int], Failure] = {}

    def failure_of(self, buffer: Buffer) -> Failure:
        """BUFFER_LOST for one array."""
        key = (buffer.session.number, id(buffer.placement), buffer.shard_bytes)
        found = self._made.get(key)
        if found is None:
            found = self._made[key] = self._make(buffer.session, buffer.placement, buffer.shard_bytes)
        return found

    def _make(self, session: Session, placement: Placement | None, shard_bytes: int) -> Failure:
        hosts = list(dict.fromkeys(host.name for host in placement.hosts)) if placement is not None else []
        count = len(placement.positions) if placement is not None else 1
        shown = ", ".join(hosts[:_HOSTS_SHOWN]) + (f" and {len(hosts) - _HOSTS_SHOWN} more" if len(hosts) > _HOSTS_SHOWN else "")
        where = f"host{'s' if len(hosts) > 1 else ''} {shown} of island {self._island.name}" if hosts else self._island.name
        whose = f"session {session.number}" + (f" ({session.client})" if session.client else "")
        what = size_text(shard_bytes * count) + (f" in {count} shards" if count > 1 else "")
        message = (
            f"an array of {what} on {where}, held by {whose} of tenant {session.tenant.name}, is lost: {self._cause.message}"
        )
        facts = {
            "array_bytes": str(shard_bytes * count), "array_hosts": ",".join(hosts[:_HOSTS_SHOWN]), "tenant": session.tenant.name,
        }  # fmt: skip
        return Failure(
            Reason.BUFFER_LOST, message, host=self._cause.host, id=self._cause.id,
            metadata=MappingProxyType({**self._cause.metadata, **facts}), retryable=False,
        )  # fmt: skip


def of_program(executable: Executable, cause: Failure) -> Failure:
    """The cause, saying which program it happened to, where that is known."""
    name = executable.facts.name if executable.facts is not None else ""
    if not name:
        return cause
    metadata = MappingProxyType({**cause.metadata, "program": name})
    return replace(cause, message=f"program {name} failed: {cause.message}", metadata=metadata)


def not_kept(lost: Failure, why: str) -> Failure:
    """The same, saying what kept an array from outliving the epoch."""
    return replace(lost, message=f"{lost.message}; {why}")
