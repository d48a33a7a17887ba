"""The loader of a simulated executor: one load after the other, by the turns of the project's own core, beside its launches.

What a gang launches has to be loaded by then. A stopped process loads nothing; in seeds for stuck hosts some loads take longer
than the deadline, on executors that are well otherwise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pathways_common.model.ids import session_of
from pathways_server.core import effects as out
from pathways_worker.core.turns import Turns

from tests.simulation import sim_images

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
        self.jobs: list[_Job] = []  # without an answer, as they came
        self.turns: Turns[_Job] = Turns()  # those of them that wait
        self.at: _Job | None = None
        self.unwanted: set[int] = set()  # of `jobs`, by what makes each its own

    def put(self, load: out.Load, image: str | None) -> None:
        job = _Job(load, image)
        self.jobs.append(job)
        hosts = {position // self.executor.per_host for position in load.devices}
        # As on accelerators, where no host compiles for others.
        tuned = len(hosts) > 1 and not sim_images.compile_once(self.executor.host.world.seed)
        self.turns.put(session_of(load.executable_id), job, tuned)
        if self.at is None:
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
        self.at = self.turns.take()
        host = self.executor.host
        long_ns = host.cluster.stuck_hosts.long_load_ns()
        if long_ns:
            host.world.after(long_ns, self._end)
        else:
            host.world.soon(self._end, 0.2, 3 * host.slow)

    def _end(self) -> None:
        if not self.executor.alive or self.executor.stuck.keeps(self._end):
            return
        job = self.at
        assert job is not None
        failure = self.executor.host.images.failure_of(self.executor, job.load, job.image)
        if failure is None and id(job) not in self.unwanted:
            self.executor.executables[job.load.executable_id] = job.load
        self.jobs.remove(job)
        self.unwanted.discard(id(job))
        self.executor.host.images.loaded(self.executor, job.load, job.image, failure)
        # What waited for its image may have come meanwhile.
        self.at = None
        if self.jobs:
            self._begin()
