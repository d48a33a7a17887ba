"""The loader of a simulated executor: one load after the other, in the order in which they came, beside its launches.

What a gang launches has to be loaded by then. A stopped process loads nothing; in seeds for stuck hosts some loads take longer
than the deadline, on executors that are well otherwise.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from pathways_server.core import effects as out

if TYPE_CHECKING:
    from tests.simulation.sim_executor import Executor
    from tests.simulation.sim_host import SimHost


class _Job(NamedTuple):
    load: out.Load
    image: str | None


def under_way(host: SimHost) -> list[int]:
    """What it was told to load and is still at, also if nobody wants it any more."""
    jobs = host.executor.loader.jobs if host.executor is not None else ()
    return [*(job.load.executable_id for job in jobs), *host.images.core.waiting]


class Loader:
    """`executor.executables` are those that can be launched."""

    def __init__(self, executor: Executor) -> None:
        self.executor = executor
        self.jobs: deque[_Job] = deque()
        self.busy = False
        self.unwanted: set[int] = set()  # of `jobs`, by what makes each its own

    def put(self, load: out.Load, image: str | None) -> None:
        self.jobs.append(_Job(load, image))
        if not self.busy:
            self._begin()

    def unload(self, identifiers: tuple[int, ...]) -> None:
        for identifier in identifiers:
            self.executor.executables.pop(identifier, None)
            self.unwanted.update(id(job) for job in self.jobs if job.load.executable_id == identifier)

    def held(self) -> list[int]:
        """Here or about to be."""
        coming = [job.load.executable_id for job in self.jobs if id(job) not in self.unwanted]
        return list(dict.fromkeys([*self.executor.executables, *coming]))

    def _begin(self) -> None:
        self.busy = True
        host = self.executor.host
        long_ns = host.cluster.stuck_hosts.long_load_ns()
        if long_ns:
            host.world.after(long_ns, self._end)
        else:
            host.world.soon(self._end, 0.2, 3 * host.slow)

    def _end(self) -> None:
        if not self.executor.alive or self.executor.stuck.keeps(self._end):
            return
        job = self.jobs[0]
        failure = self.executor.host.images.failure_of(self.executor, job.load, job.image)
        if failure is None and id(job) not in self.unwanted:
            self.executor.executables[job.load.executable_id] = job.load
        self.jobs.popleft()
        self.unwanted.discard(id(job))
        self.executor.host.images.loaded(self.executor, job.load, job.image, failure)
        # What waited for its image may have come meanwhile.
        self.busy = False
        if self.jobs:
            self._begin()
