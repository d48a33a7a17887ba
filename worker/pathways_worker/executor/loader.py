"""Loads beside launches: a thread of its own carries them out, one at a time; which is next is decided by `core.turns`.

A program is entered before its Loaded is told, so that whoever launches it because of that finds it. Every Load is answered once,
whatever becomes of it. One that is unloaded meanwhile is carried out and not entered; one that has not begun, and that no other
host tunes with this one, is not begun any more.
"""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from pathways_common.model.failure import Reason
from pathways_common.model.ids import GlobalId, session_of
from pathways_proto.v1 import workers_pb2

from pathways_worker.core.turns import Turns
from pathways_worker.executor.colocated import PythonProgram
from pathways_worker.executor.completion import Lane
from pathways_worker.executor.failures import failure_of, make_failure
from pathways_worker.executor.programs import Program
from pathways_worker.executor.progress import Progress

# MLIR and XLA go into programs by recursion, on the main thread as deep as the system allowed. Only what is touched takes memory.
STACK_BYTES = 64 << 20

AnyProgram: TypeAlias = Program | PythonProgram
CarryOut: TypeAlias = Callable[[Any], tuple[AnyProgram | None, Any]]


# In place of an image whose bytes nobody needs any more.
_SOME = b"-"


class _Job:
    __slots__ = ("begun", "load", "shared", "wanted")

    def __init__(self, load: Any, shared: bool) -> None:
        self.load = load
        self.shared = shared
        self.wanted = True
        self.begun = False

    def let_go(self) -> None:
        """Nobody wants it: what only carrying it out would need is not kept."""
        self.wanted = False
        if not self.begun and not self.shared:
            load = self.load
            self.load = workers_pb2.Load(executable_id=load.executable_id, epoch=load.epoch, image=_SOME if load.image else b"")


class Loader:
    """`programs` are those that can be launched; `tell` takes the Loaded of each Load, from the thread of the loader.

    `is_shared(load)` says whether other hosts are at it at the same time, and tune it with this one. All methods are for the
    dispatcher.
    """

    def __init__(
        self,
        programs: dict[int, AnyProgram],
        carry_out: CarryOut,
        is_shared: Callable[[Any], bool],
        progress: Progress,
        tell: Callable[[Any], None],
    ) -> None:
        self._programs = programs
        self._carry_out = carry_out
        self._is_shared = is_shared
        self._progress = progress
        self._tell = tell
        self._lane = Lane("loader", STACK_BYTES)
        # Those without an answer, as they came; of one id there may be one that is not wanted, and its successor.
        self._jobs: list[_Job] = []
        self._turns: Turns[_Job] = Turns()  # those of them that wait
        self._lock = threading.Lock()

    def load(self, load: Any) -> None:
        """Takes a Load."""
        job = _Job(load, self._is_shared(load))
        with self._lock:
            self._jobs.append(job)
            self._turns.put(session_of(GlobalId(load.executable_id)), job, job.shared)
        self._lane.put(self._do_next)

    def unload(self, identifiers: Iterable[int]) -> None:
        """These will not be launched any more, whether they are loaded yet or not."""
        with self._lock:
            for identifier in identifiers:
                self._programs.pop(identifier, None)
                for job in self._jobs:
                    if job.load.executable_id == identifier:
                        job.let_go()

    def held(self) -> list[int]:
        """Executables that are here or will be."""
        with self._lock:
            coming = [int(job.load.executable_id) for job in self._jobs if job.wanted]
            return list(dict.fromkeys([*self._programs, *coming]))

    # ---- on the thread of the loader -------------------------------------------------------------------------------

    def _do_next(self) -> None:
        with self._lock:
            job = self._turns.take()
            job.begun = job.wanted or job.shared
            load = job.load
        if not job.begun:
            answer = workers_pb2.Loaded(executable_id=load.executable_id, epoch=load.epoch)
            answer.failure.CopyFrom(make_failure(Reason.CANCELLED, "the program was unloaded before it was loaded"))
            answer.reused = bool(load.image)  # nothing is wrong with its image
            program = None
        else:
            with self._progress.loading(load.executable_id):
                program, answer = self._loaded(load)
        with self._lock:
            if program is not None and job.wanted:
                self._programs[load.executable_id] = program
            self._jobs.remove(job)
        self._tell(answer)

    def _loaded(self, load: Any) -> tuple[AnyProgram | None, Any]:
        try:
            return self._carry_out(load)
        except Exception as error:  # a defect of ours fails this load, and those behind it go on
            traceback.print_exc(file=sys.stderr)
            answer = workers_pb2.Loaded(executable_id=load.executable_id, epoch=load.epoch)
            answer.failure.CopyFrom(failure_of(error, Reason.INTERNAL))
            return None, answer
