"""A simulated client: random work whose results it knows by plain arithmetic, and a judge of every answer.

A value must be exact. A failure must be one that can have happened to this very array: an error of a library call only
behind a fallible program, a loss only if an island of its history lost an epoch, and so on.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from itertools import accumulate
from typing import Any

from pathways_common.model.array import ArraySpec
from pathways_common.model.failure import Failure, Reason
from pathways_common.model.ids import GlobalId, SessionNumber, global_id
from pathways_server.core import effects as out
from pathways_server.core import events

from tests.simulation import sim_irregular, sim_judging, sim_programs, sim_reshard, sim_slices
from tests.simulation.sim_arithmetic import LARGE, SMALL, Program, decode, encode
from tests.simulation.sim_cluster import Cluster
from tests.simulation.sim_fused import Fused
from tests.simulation.sim_memory import HUGE
from tests.simulation.sim_records import Array, Compilation

F32 = 11


class Client:
    def __init__(self, cluster: Cluster, number: int, wanted: tuple[str, ...], budget: int) -> None:
        self.cluster = cluster
        self.world = cluster.world
        self.random = cluster.world.random
        self.number = SessionNumber(number)
        self.wanted = wanted
        self.budget = budget
        self.devices: tuple[out.SessionDevice, ...] = ()
        self.slices: dict[int, tuple[int, ...]] = {}
        self.asked: dict[int, events.SliceRequested] = {}
        self.withdrawn: dict[int, None] = {}
        self.end: Any = None
        self.controller_end: Any = None
        self.closed = False
        self.slow = 1.0
        self.sent_last: deque[events.Event] = deque(maxlen=6)
        self.identifier = 0
        self.other = 0
        self.arrays: dict[int, Array] = {}
        self.programs: dict[int, Compilation] = {}
        self.traced: dict[int, sim_programs.Traced] = {}
        self.tries = 0
        self.paused = False  # a slice of it is suspended, and it waits until that has devices again
        self.also: dict[str, None] = {}  # islands to which something of it was asked to move
        self.ended: dict[int, None] = {}  # buffers that were deleted or donated
        self.open_questions: dict[tuple[str, int], tuple[list[Array], int]] = {}
        self.uploads: dict[int, tuple[Array, int]] = {}
        self.answers = 0
        self.values = 0
        self.defined = self.runs = 0

    # ---- sending ----

    def send(self, event: events.Event) -> None:
        if not self.closed:
            self.sent_last.append(event)
            self.end.push(event)
            self.end.flush()

    def new_id(self) -> int:
        self.identifier += 1
        return self.identifier

    def number_of(self, kind: str, arrays: list[Array], shard: int = 0) -> int:
        self.other += 1
        self.open_questions[kind, self.other] = (arrays, shard)
        return self.other

    def g(self, local: int) -> GlobalId:
        return global_id(self.number, local)

    def act(self) -> None:
        """One random operation, then the next after a pause, until the budget is used."""
        if self.closed or self.world.broken:
            return
        if self.devices and self.budget > 0 and not self.paused:
            for _ in range(self.random.choice([1, 1, 2, 8])):
                self.budget -= 1
                name = self.random.choices(_OPERATIONS, cum_weights=_LADDER)[0]
                _ELSEWHERE[name](self) if name in _ELSEWHERE else getattr(self, name)()
            self.cluster.trouble.may_crash(self)
        if self.budget > 0:
            pause_ms = self.cluster.migrations.pause_ms(self)
            self.world.soon(self.act, 0.05 + pause_ms, (6 if self.devices else 20) * self.cluster.stuck_hosts.pace + pause_ms)

    # ---- operations ----

    def some_devices(self) -> tuple[int, ...]:
        primary = self.cluster.migrations.used_by(self, [device for device in self.devices if not device.pool])
        islands = sorted({device.island for device in primary})
        groups = [[device.device_id for device in primary if device.island == island] for island in islands]
        own = self.random.choice([*groups, *map(list, self.slices.values())])
        whole = 0.2 if self.cluster.rescues.on else 0.6
        return tuple(own) if self.random.random() < whole else tuple(self.random.sample(own, self.random.randint(1, len(own))))

    def islands_of(self, devices: tuple[int, ...]) -> tuple[str, ...]:
        return tuple(sorted({self.home_of(self.devices[device].island) for device in devices}))

    def homes_of(self, devices: tuple[int, ...]) -> tuple[str, ...]:
        """Where what it makes on them may be."""
        return tuple(sorted({*self.islands_of(devices), *self.also}))

    def home_of(self, island: str) -> str:
        """Whose executors hold what the client sees on an island."""
        return self.cluster.isolation.island_of(self.number, island)

    def together(self, devices: tuple[int, ...]) -> bool:
        """Of one slice or all primary: devices of two slices may be the same physical ones, which the core refuses."""
        primary = not any(self.devices[device].pool for device in devices)
        return primary or any(set(devices) <= set(own) for own in self.slices.values())

    def live(self, devices: tuple[int, ...] | None = None) -> list[Array]:
        return [
            array
            for array in self.arrays.values()
            if (devices is None or array.devices == devices) and self.ended.keys().isdisjoint(array.buffers)
        ]

    def spec(self, devices: tuple[int, ...], size: int, memory_kind: str = "") -> ArraySpec:
        return ArraySpec(F32, (size // 4 * len(devices),), b"", (size // 4,), devices, memory_kind)

    def upload(self, devices: tuple[int, ...] | None = None) -> Array:
        devices = devices or self.some_devices()
        size = self.random.choice([SMALL, SMALL, LARGE])
        huge = self.random.random() < 0.02
        size = HUGE if huge else size
        groups = [tuple(range(len(devices)))] if self.random.random() < 0.5 else [(index,) for index in range(len(devices))]
        expected = [0] * len(devices)
        pieces = []
        identifier = self.new_id()
        array = Array(identifier, expected, devices, (identifier,) * len(devices), size, self.homes_of(devices))
        array.must_fail = Reason.RESOURCE_EXHAUSTED if huge else None
        for group in groups:
            value = self.random.randint(1, 1_000_000)
            for shard in group:
                expected[shard] = value
            if size == SMALL and self.random.random() < 0.8:
                pieces.append(events.Piece(group, size, encode(value), 0))
            else:
                self.other += 1
                self.uploads[self.other] = (array, value)
                pieces.append(events.Piece(group, size, None, self.other))
                array.may_fail = (Reason.TIMED_OUT, Reason.UNAVAILABLE)
        self.arrays[identifier] = array
        spec = self.spec(devices, size)
        if len(groups) == 1 and self.cluster.rescues.on:
            spec = replace(spec, shape=spec.shard_shape)  # every device has all of it
        self.send(events.ArrayMade(self.number, self.g(identifier), spec, tuple(pieces)))
        return array

    def compile(self) -> None:
        devices = self.some_devices()
        primary = [device for device in self.devices if not device.pool]
        if primary[0].island != primary[-1].island and self.random.random() < 0.1:
            devices = (0, len(primary) - 1)
        parameters = self.random.randint(0, 3)
        donated = (0,) if parameters and self.random.random() < 0.4 else ()
        fallible = "node failure" in self.cluster.faults.kinds and self.random.random() < 0.4
        callback = self.random.randint(1, 1000) if self.random.random() < 0.25 else 0
        program = Program(
            self.random.randint(1, 2), parameters, donated, fallible, callback, self.random.random() < 0.3,
            self.random.randint(1, 5), self.random.random() < 0.05,
        )  # fmt: skip
        self.start_compilation(devices, self.cluster.well_known(program))

    def start_compilation(self, devices: tuple[int, ...], program: Program | Fused) -> Compilation:
        identifier = self.new_id()
        self.programs[identifier] = Compilation(identifier, devices, program)
        self.open_questions["compile", identifier] = ([], 0)
        calls = (program.callback,) if program.callback else ()
        self.send(events.CompileRequested(self.number, self.g(identifier), program.text(), devices, calls))
        return self.programs[identifier]

    def usable(self) -> list[Compilation]:
        return [found for found in self.programs.values() if found.ok and not (found.program.flag or found.program.fused)]

    def execute(self) -> None:
        usable = self.usable()
        if not usable:
            self.compile()
            return
        chosen = self.random.choice(usable)
        program, devices = chosen.program, chosen.devices
        arguments: list[Array] = []
        for _ in range(program.parameters):
            live = self.live(devices)
            arguments.append(self.random.choice(live) if live and self.random.random() < 0.9 else self.upload(devices))
        self.run(chosen, arguments)

    def run(self, chosen: Compilation, arguments: list[Array]) -> None:
        """Runs a program and works out what must come of it."""
        program, devices = chosen.program, chosen.devices
        hosts = len({self.devices[device].host for device in devices})
        results = program.results([argument.expected for argument in arguments], len(devices), hosts)
        first = self.identifier + 1
        history = tuple(sorted({*self.homes_of(devices), *(name for argument in arguments for name in argument.history)}))
        may_fail = {reason for argument in arguments for reason in argument.may_fail}
        may_fail |= {Reason.EXECUTION_ERROR} if program.fallible else set()
        may_fail |= {Reason.USER_ERROR, Reason.TIMED_OUT, Reason.CANCELLED} if program.callback else set()
        # Which of several is the first cause is not known here.
        may_fail |= {argument.must_fail for argument in arguments if argument.must_fail is not None}
        must_fail = next((argument.must_fail for argument in arguments if argument.must_fail), None)
        for expected in results:
            identifier = self.new_id()
            size = LARGE if program.large else SMALL
            self.arrays[identifier] = Array(
                identifier, expected, devices, (identifier,) * len(devices), size, history,
                tuple(sorted(may_fail, key=lambda reason: reason.value)), must_fail,
            )  # fmt: skip
        execution = self.new_id()
        for index in program.donated:
            if self.random.random() < 0.4:
                self.fetch_one(arguments[index])  # a read under way when the donation comes
        self.send(
            events.ExecuteRequested(
                self.number,
                self.g(execution),
                self.g(chosen.id),
                tuple(self.g(argument.id) for argument in arguments),
                self.g(first),
                (),
                0,
            )
        )
        for index in program.donated:
            for buffer in arguments[index].buffers:
                self.ended[buffer] = None
            if self.random.random() < 0.7:
                self.drop(arguments[index])

    def drop(self, array: Array) -> None:
        if self.arrays.pop(array.id, None) is not None:
            self.send(events.Released(self.number, (self.g(array.id),), ()))

    def fetch(self) -> None:
        arrays = list(self.arrays.values())
        if arrays:
            self.fetch_one(self.random.choice(arrays))

    def fetch_one(self, array: Array, shard: int | None = None) -> None:
        shard = self.random.randrange(len(array.expected)) if shard is None else shard
        number = self.number_of("fetch", [array], shard)
        self.send(events.FetchRequested(self.number, number, self.g(array.id), shard, array.size))

    def wait(self) -> None:
        arrays = self.live()
        chosen = self.random.sample(arrays, min(len(arrays), self.random.randint(0, 3)))
        number = self.number_of("wait", chosen)
        self.send(events.WaitRequested(self.number, number, tuple(self.g(array.id) for array in chosen)))

    def copy(self) -> None:
        arrays = self.live()
        if not arrays:
            return
        source = self.random.choice(arrays)
        targets = [self.some_devices() for _ in range(4)]
        fitting = [devices for devices in targets if len(devices) == len(source.devices)] or [source.devices]
        devices = self.random.choice(fitting)
        if len(self.islands_of(devices)) > 1 or not self.together(devices):
            return
        kind = self.random.choice(["", "pinned_host"])
        identifier = self.new_id()
        history = tuple(sorted({*source.history, *self.homes_of(devices)}))
        may_fail = (*source.may_fail, Reason.UNAVAILABLE)
        self.arrays[identifier] = Array(
            identifier, list(source.expected), devices, (identifier,) * len(devices), source.size, history, may_fail,
            source.must_fail,
        )  # fmt: skip
        self.send(
            events.CopyRequested(
                self.number, (self.g(identifier),), (self.g(source.id),), (self.spec(devices, source.size, kind),)
            )
        )

    def view(self) -> None:
        """A slice of one array, or two arrays put together."""
        arrays = self.live()
        if not arrays:
            return
        first = self.random.choice(arrays)
        ranges = [(first, *self.some_range(first))]
        second = self.random.choice(arrays)
        if not set(second.devices) & set(first.devices) and second.size == first.size:
            ranges.append((second, *self.some_range(second)))
        expected: list[int] = []
        devices: list[int] = []
        buffers: list[int] = []
        for array, start, count in ranges:
            expected += array.expected[start : start + count]
            devices += array.devices[start : start + count]
            buffers += array.buffers[start : start + count]
        sources = [array for array, _, _ in ranges]
        history = tuple(sorted({name for array in sources for name in array.history}))
        may_fail = tuple(reason for array in sources for reason in array.may_fail)
        must_fail = next((array.must_fail for array in sources if array.must_fail), None)
        if must_fail is not None:
            return
        identifier = self.new_id()
        self.arrays[identifier] = Array(identifier, expected, tuple(devices), tuple(buffers), first.size, history, may_fail)
        named = tuple((self.g(array.id), start, count) for array, start, count in ranges)
        self.send(events.ViewMade(self.number, self.g(identifier), named))

    def some_range(self, array: Array) -> tuple[int, int]:
        start = self.random.randrange(len(array.devices))
        return start, self.random.randint(1, len(array.devices) - start)

    def release(self) -> None:
        if len(self.arrays) > 6:
            self.drop(self.random.choice(list(self.arrays.values())))

    def delete(self) -> None:
        arrays = self.live()
        if len(arrays) > 6:
            array = self.random.choice(arrays)
            for buffer in array.buffers:
                self.ended[buffer] = None
            self.send(events.ViewsDeleted(self.number, (self.g(array.id),)))

    def unload(self) -> None:
        usable = [compilation for compilation in self.programs.values() if compilation.ok]
        if len(usable) > 3:
            chosen = self.random.choice(usable)
            del self.programs[chosen.id]
            self.send(events.Released(self.number, (), (self.g(chosen.id),)))

    def fence(self) -> None:
        self.send(events.FenceRequested(self.number, self.number_of("fence", [])))

    def inspect(self) -> None:
        if usable := [compilation for compilation in self.programs.values() if compilation.ok]:
            number = self.number_of("inspect", [])
            self.send(events.InspectRequested(self.number, number, self.g(self.random.choice(usable).id), 1))

    def error_array(self) -> None:
        identifier = self.new_id()
        devices = self.some_devices()
        array = Array(identifier, [0] * len(devices), devices, (identifier,) * len(devices), SMALL, ())
        array.must_fail = Reason.USER_ERROR
        self.arrays[identifier] = array
        self.send(events.ErrorArrayMade(self.number, self.g(identifier), Failure(Reason.USER_ERROR, "made with an error")))

    def read_everything(self) -> None:
        """The last thing that a client does: everything it still names is read, then fenced."""
        for array in list(self.arrays.values()):
            self.fetch_one(array)
        self.fence()

    def close(self) -> None:
        if not self.closed:
            self.send(events.SessionClosed(self.number, "goodbye"))

    # ---- answers ----

    def receive(self, replies: tuple[Any, ...]) -> None:
        for reply in replies:
            if not self.closed:
                self.on_reply(reply)

    def on_reply(self, reply: Any) -> None:
        match reply:
            case out.WelcomeSession():
                self.devices = reply.devices
            case out.RefuseSession():
                self.closed = True
                sim_judging.judge(self, "session", [], reply.failure)
            case out.Compiled():
                self.on_compiled(reply)
            case out.Fetched():
                self.on_value(reply.fetch_id, decode(reply.data))
            case out.FetchTicket():
                self.pull(reply)
            case out.FetchFailed():
                self.on_failure("fetch", reply.fetch_id, reply.failure)
            case out.Ready():
                self.on_failure("wait", reply.wait_id, reply.failure)
            case out.Inspected():
                self.on_failure("inspect", reply.inspect_id, reply.failure)
            case out.FenceReached():
                self.on_failure("fence", reply.fence_id, None)
            case out.UploadGrant():
                self.push(reply)
            case out.CallbackRequest():
                self.world.soon(lambda: self.call(reply), 0.05, 2)
            case out.ProgramDefined() | out.ProgramFused():
                sim_programs.on_answered(self, reply)
            case out.SliceAdded():
                sim_slices.on_added(self, reply)
            case out.SliceSuspended():
                self.cluster.migrations.on_suspended(self, reply)
            case out.SliceResumed():
                self.cluster.migrations.on_resumed(self, reply)
            case out.UploadWithdrawn() | out.CallbackCancelled() | out.Poisoned() | out.Notice() | out.SliceWaiting():
                pass
            case _:
                raise AssertionError(f"unhandled {reply}")

    def on_compiled(self, reply: out.Compiled) -> None:
        compilation = self.programs[reply.executable_id]
        self.open_questions.pop(("compile", reply.executable_id), None)
        crosses = len(self.islands_of(compilation.devices)) > 1
        if reply.failure is None:
            compilation.ok = not compilation.gone
            # Devices of a slice that ended meanwhile may stand for others by now.
            if (crosses and not compilation.gone) or compilation.program.broken:
                self.world.violate("values", "a program that must be refused was compiled")
            return
        del self.programs[reply.executable_id]
        wanted = [Reason.PROGRAM_REFUSED] * crosses + [Reason.COMPILE_ERROR] * compilation.program.broken
        if reply.failure.reason not in wanted:
            sim_judging.judge(self, "compile", [], reply.failure)

    def pull(self, ticket: out.FetchTicket) -> None:
        host = self.cluster.hosts[ticket.source]

        def take(value: int | None, failure: Failure | None) -> None:
            if failure is not None:
                self.on_failure("fetch", ticket.fetch_id, failure)
            else:
                self.on_value(ticket.fetch_id, value or 0)

        self.world.soon(lambda: host.serve(ticket.source_fetch, take), 0.1, 3)

    def push(self, grant: out.UploadGrant) -> None:
        _, value = self.uploads[grant.upload_id]
        for name, transfer in grant.targets:
            host = self.cluster.hosts[name]
            if self.cluster.faults.strikes("silent upload", 0.1):
                continue
            failure = None
            if self.cluster.faults.transfer_fails(name):
                failure = Failure(Reason.UNAVAILABLE, "stream reset", host=name)

            def arrive(host: Any = host, transfer: int = transfer, failure: Failure | None = failure) -> None:
                host.land(host.executor, transfer, None if failure else value, failure)

            self.world.soon(arrive, 0.1, 4)

    def call(self, request: out.CallbackRequest) -> None:
        failure = None
        if self.cluster.faults.strikes("raising callback", 1.0):
            failure = Failure(Reason.USER_ERROR, "ValueError: raised by the user")
        results = b"" if failure else encode(2 * decode(request.operands))
        self.send(events.CallbackReturned(self.number, request.call_id, results, failure))

    def on_value(self, number: int, value: int) -> None:
        question = self.open_questions.pop(("fetch", number), None)
        if question is None:
            return  # failed while the bytes were on their way
        (array,), shard = question
        self.answers += 1
        self.values += 1
        self.cluster.other_copies.on_value(array)
        self.world.look("values")
        if array.must_fail is not None or value != array.expected[shard]:
            self.world.violate("values", f"client {self.number}: shard {shard} of {array} came back as {value}")

    def on_failure(self, kind: str, number: int, failure: Failure | None) -> None:
        question = self.open_questions.pop((kind, number), None)
        if question is None:
            return
        self.answers += 1
        if failure is not None:
            sim_judging.judge(self, kind, question[0], failure)


_WEIGHTS = {
    "upload": 5, "execute": 14, "compile": 2, "fetch": 6, "wait": 3, "copy": 3, "reshard": 2, "view": 3, "release": 4,
    "delete": 1, "unload": 1, "fence": 1, "inspect": 1, "error_array": 0.2, "add_slice": 1.5, "release_slice": 1,
    "define": 2, "run_program": 6, "cancel": 0.7, "drop_program": 0.5, "define_irregular": 2, "fuse": 8,
}  # fmt: skip
_OPERATIONS, _LADDER = list(_WEIGHTS), list(accumulate(_WEIGHTS.values()))
_ELSEWHERE = {
    "reshard": sim_reshard.reshard, "add_slice": sim_slices.add, "release_slice": sim_slices.release, **sim_programs.OPERATIONS,
    **sim_irregular.OPERATIONS,
}  # fmt: skip
