"""What people are told: every cause that a client hears of has a story, work that was granted is told to its end.

And a host is where the messages put it: at a gang that it was granted and has not finished.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pathways_common.model.failure import Failure, Reason
from pathways_common.model.ids import is_made_by_core
from pathways_server.core import conditions, events, story
from pathways_server.core import effects as out
from pathways_server.core.transitions import ExecutionState

from tests.simulation.checkers.checker import Checker
from tests.simulation.checkers.grants import Grant

if TYPE_CHECKING:
    from tests.simulation.sim_cluster import Cluster

EVERY = 32
_CAUSES = (Reason.SLICE_LOST, Reason.BUFFER_LOST, Reason.EXECUTION_ERROR, Reason.USER_ERROR)
_ENDS = (ExecutionState.FINISHED, ExecutionState.FAILED)


class Stories(Checker):
    name = "stories"

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._waited = 0
        self._granted: dict[int, None] = {}
        # By host: an epoch, and the sequences of its own launches in it, a fused group with that of its last node.
        self._own: dict[str, tuple[int, list[int]]] = {}

    def granted(self, grant: Grant) -> None:
        epoch, own = self._own.get(grant.host, (0, []))
        if epoch != grant.epoch:
            own = []
        self._own[grant.host] = grant.epoch, [*own, *grant.sequences]
        if not is_made_by_core(grant.execution_id):  # those are pieces, which are told under the id of the whole
            self._granted[grant.execution_id] = None

    def after(self, event: events.Event, effects: list[out.Effect]) -> None:
        for effect in effects:
            if isinstance(effect, out.SendToSession):
                self._told(getattr(effect.reply, "failure", None))
        self._waited += 1
        if self._waited >= EVERY or isinstance(event, events.NodeFailed | events.ExecutorLost | events.HostLost):
            self._waited = 0
            self._look_at_hosts()

    def _told(self, failure: Failure | None) -> None:
        if failure is None or failure.reason not in _CAUSES or not failure.id:
            return
        self.look()
        if not story.tell(self.cluster.core.state, self.world.now_ns, "FAILURE", 0, failure.id, None):
            self.violate(f"a client was told of failure {failure.id}, which has no story: {failure.message}")

    def _look_at_hosts(self) -> None:
        state = self.cluster.core.state
        for host in state.hosts.values():
            running, finished = conditions.running(state, host), conditions.finished(host)
            if running is not None:
                self.look()
                if host.name not in running.members or not host.finished_through < running.sequence <= host.last_sequence:
                    self.violate(f"{host.name} is said to run {running}, and has finished {host.finished_through}")
                epoch, own = self._own.get(host.name, (0, []))
                own = [sequence for sequence in own if sequence > host.finished_through]
                self._own[host.name] = epoch, own
                if epoch == host.island.epoch and any(sequence < running.sequence for sequence in own):
                    self.violate(f"{host.name} is said to run {running}, and was granted {own} and not told to have finished it")
                if host.name not in conditions.late(state, host.island, running, {}):
                    self.violate(f"{host.name} runs {running} and is not among those that have not finished it")
            if finished is not None:
                self.look()
                if host.name not in finished.members or finished.sequence > host.finished_through:
                    self.violate(f"{host.name} is said to have finished {finished}, and told {host.finished_through}")

    def at_end(self) -> None:
        history = self.cluster.core.state.history
        if history.since_ns:
            return
        told: dict[int, list[ExecutionState]] = {}
        for note in history.work():
            if isinstance(note.what, ExecutionState):
                told.setdefault(note.id, []).append(note.what)
        for number in self._granted:
            self.look()
            states = told.get(number, [])
            if ExecutionState.GRANTED not in states or states[-1] not in _ENDS:
                self.violate(f"work {number} was granted and is over, and its story has {states}")
