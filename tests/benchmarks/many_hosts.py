"""A real controller, hosts that only acknowledge, and a client that speaks pathways.v1: what a cluster of any size costs it.

The client runs chains: a program whose nodes each take the value of the one before. Nothing is computed, so time and CPU are
those of the controller, the links and the client.
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pathways_common.rpc.channels import open_channel
from pathways_common.rpc.version import pathways_version
from pathways_door.upstream import Upstream, open_upstream
from pathways_proto.v1 import programs_pb2, sessions_pb2, types_pb2

from tests.cluster import plain_environment

HERE = Path(__file__).parent
F32 = 11
PROCESSES = 4
START_S = 120
_OTHER, _REPLICATED = 3, 0


def sharding(count: int) -> bytes:
    """A serialized xla.OpSharding: one dimension, cut into `count` tiles in the order of the devices."""
    return b"" if count == 1 else bytes((0x08, _OTHER)) + b"".join(_packed(field, count_) for field, count_ in (
        (3, count), (9, count), (10, 0)))  # fmt: skip


def _packed(field: int, value: int) -> bytes:
    digits = bytes((value,)) if value < 128 else bytes((value & 127 | 128, value >> 7))
    return bytes((field << 3 | 2, len(digits))) + digits


def acknowledged(count: int) -> bytes:
    """The "module" of a program on `count` acknowledging devices: one f32 per device in, the same out."""
    output = types_pb2.ArraySpec(dtype=F32, shape=[count], shard_shape=[1], sharding=sharding(count))
    info = types_pb2.ExecutableInfo(name="step", digest=b"1", outputs=[output], parameter_count=1)
    return bytes(info.SerializeToString())


@dataclass(frozen=True)
class Running:
    """One controller with its hosts."""

    address: str
    state: Path
    controller: int
    certificate: Path | None = None

    def cpu_ns(self) -> int:
        """What the controller's threads have used so far."""
        threads = Path(f"/proc/{self.controller}/task").iterdir()
        return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads)


@contextmanager
def cluster_of(names: Sequence[str], transport: str = "framed", tls: bool = False) -> Iterator[Running]:
    """Hosts `island/host` behind a controller of their own; all is ended at the end."""
    with ExitStack() as stack:
        state = Path(tempfile.mkdtemp(prefix="pathways-many-"))
        stack.callback(shutil.rmtree, state, ignore_errors=True)
        certificate = make_certificate(state) if tls else None
        sizes: dict[str, int] = {}
        for name in names:
            island = name.partition("/")[0]
            sizes[island] = sizes.get(island, 0) + 1
        islands = ",".join(f"{island}={size}" for island, size in sizes.items())
        secured = ("--certificate", str(certificate)) if certificate else ()
        words = ("--listen", "127.0.0.1:0", "--state-dir", str(state), "--metrics-port", "-1", "--hosts-per-island", islands,
                 "--link-transport", transport)  # fmt: skip
        controller = _start(stack, state, "controller", "links_controller.py", *secured, *words)
        address = _line(controller, "listening grpc://", state)
        hosts = [
            _start(stack, state, f"hosts{part}", "acknowledging_hosts.py", *secured, address, str(state), *names[part::PROCESSES])
            for part in range(PROCESSES)
            if names[part::PROCESSES]
        ]
        for process in hosts:
            _line(process, "joined", state)
        yield Running(address, state, controller.pid, certificate)


def make_certificate(state: Path) -> Path:
    """A certificate for 127.0.0.1 with its key beside it, signed by itself."""
    certificate = state / "certificate.pem"
    subprocess.run(
        ("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-out", str(certificate),
         "-keyout", str(state / "key.pem")),
        check=True, capture_output=True, timeout=60,
    )  # fmt: skip
    return certificate


def _start(stack: ExitStack, state: Path, name: str, script: str, *words: str) -> subprocess.Popen[str]:
    log = stack.enter_context((state / f"{name}.log").open("w"))
    process = subprocess.Popen(
        [sys.executable, str(HERE / script), *words], env=plain_environment(), stdout=subprocess.PIPE, stderr=log, text=True
    )

    def end() -> None:
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    stack.callback(end)
    return process


def _line(process: subprocess.Popen[str], start: str, state: Path) -> str:
    """The rest of the line that the process says first."""
    assert process.stdout is not None
    line = process.stdout.readline().strip()
    if not line.startswith(start):
        logs = "\n".join(f"{path.name}: {path.read_text()[-2000:]}" for path in sorted(state.glob("*.log")))
        raise SystemExit(f"waited for {start!r} and got {line!r}\n{logs}")
    return line.removeprefix(start)


class Client:
    """A session. `stage(...)` gives a computation, `chain(...)` a program of some of them."""

    def __init__(self, upstream: Upstream) -> None:
        self.upstream = upstream
        self.device_count = sum(not device.pool for device in upstream.welcome.devices)

    async def _ask(self, kind: str, number: int, operation: sessions_pb2.ClientOperation) -> Any:
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def told(message: Any, failure: Any) -> None:
            if answer.done():  # given up
                return
            if failure is None:
                answer.set_result(message)
            else:
                answer.set_exception(SystemExit(failure.message))

        self.upstream.ask(kind, number, operation, told)
        return await asyncio.wait_for(answer, 120)

    async def stage(self, devices: Sequence[int], program: bytes, options: bytes = b"") -> programs_pb2.Computation:
        """A computation on these devices that takes one f32 of each and gives one back."""
        executable_id = self.upstream.new_ids()
        compilation = sessions_pb2.Compile(executable_id=executable_id, program=program, options=options, devices=devices)
        await self._ask("compiled", executable_id, sessions_pb2.ClientOperation(compile=compilation))
        spec = array_spec(devices)
        return programs_pb2.Computation(executable_id=executable_id, parameters=[spec], results=[spec])

    async def chain(
        self, computations: Sequence[programs_pb2.Computation], nodes: int, dispatch: int = programs_pb2.DISPATCH_PARALLEL
    ) -> int:
        """A program of so many nodes, each of the next computation in turn; its id."""
        edges = [programs_pb2.Edge(node=node, output=0) for node in range(nodes + 1)]
        graph = programs_pb2.Graph()
        graph.nodes.add(argument=programs_pb2.ArgumentNode(specs=[computations[0].parameters[0]]))
        for node in range(nodes):
            kind = programs_pb2.ComputationNode(computation=node % len(computations))
            graph.nodes.add(name="step", source="many_hosts.py:1", inputs=[edges[node]], computation=kind)
        graph.nodes.add(result=programs_pb2.ResultNode(), inputs=[edges[nodes]])
        devices = sorted({device for each in computations for device in each.parameters[0].devices})
        program = programs_pb2.Program(
            name="chain", devices=devices, computations=computations, graphs=[graph], dispatch=dispatch
        )
        program_id = self.upstream.new_ids()
        define = sessions_pb2.DefineProgram(program_id=program_id, program=program)
        await self._ask("program_defined", program_id, sessions_pb2.ClientOperation(define_program=define))
        return program_id

    def make(self, devices: Sequence[int]) -> int:
        """An array of one zero per device."""
        buffer_id = self.upstream.new_ids()
        piece = sessions_pb2.Piece(shards=range(len(devices)), inline=bytes(4), size_bytes=4)
        array = sessions_pb2.MakeArray(buffer_id=buffer_id, spec=array_spec(devices), pieces=[piece])
        self.upstream.push(sessions_pb2.ClientOperation(make_array=array))
        return buffer_id

    async def run(self, program_id: int, argument: int) -> bytes:
        """One run; the first shard of its result, when it was read."""
        run_id = self.upstream.new_ids(2)
        run = sessions_pb2.RunProgram(
            run_id=run_id, program_id=program_id, arguments=[argument], first_result_id=run_id + 1, launch_id=run_id
        )
        self.upstream.push(sessions_pb2.ClientOperation(run_program=run))
        number = self.upstream.pending.number("fetched")
        fetch = sessions_pb2.Fetch(fetch_id=number, view_id=run_id + 1, shard=0, size_bytes=4)
        fetched = await self._ask("fetched", number, sessions_pb2.ClientOperation(fetch=fetch))
        self.upstream.release(run_id + 1, 4)
        return bytes(fetched.data)

    async def runs(self, program_id: int, argument: int, count: int, outstanding: int) -> None:
        """So many runs, each begun when one of those before it was read."""
        left = iter(range(count))

        async def one_after_another() -> None:
            for _ in left:
                await self.run(program_id, argument)

        await asyncio.gather(*(one_after_another() for _ in range(outstanding)))


def array_spec(devices: Sequence[int]) -> types_pb2.ArraySpec:
    """One f32 per device."""
    count = len(devices)
    return types_pb2.ArraySpec(dtype=F32, shape=[count], sharding=sharding(count), shard_shape=[1], devices=devices)


@asynccontextmanager
async def client_of(running: Running) -> AsyncIterator[Client]:
    """A session with all devices."""
    token = (running.state / "token").read_text().strip()
    hello = sessions_pb2.Hello(pathways_version=pathways_version(), client="many hosts", islands=["*"])
    channel = open_channel(running.address) if running.certificate is None else _secure(running.address, running.certificate)
    upstream = await open_upstream(channel, running.address, token, hello)
    try:
        yield Client(upstream)
    finally:
        await upstream.close("the benchmark ended")


def _secure(address: str, certificate: Path) -> Any:
    from tests.benchmarks.tls_links import secure_channel, secure_links

    secure_links(certificate)
    return secure_channel(address, certificate)
