"""Old and new clients and workers, played against a controller: they work, or are told who is older; compilers have to fit."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from pathways_common.rpc.version import OLDEST_PROTOCOL_LEVEL, PROTOCOL_LEVEL, pathways_version
from pathways_proto.v1 import cluster_pb2, sessions_pb2, types_pb2, workers_pb2

from tests.unit.server_shell.scripted_core import TIMEOUT_S, Controller, controller

OWN = pathways_version()


def made(level: int, oldest: int, jaxlib: str = "") -> types_pb2.Versions:
    return types_pb2.Versions(pathways=OWN, protocol_level=level, oldest_protocol_level=oldest, jaxlib=jaxlib)


async def answered(call: Any, frame: Any) -> Any:
    await call.write(frame)
    return await asyncio.wait_for(call.read(), TIMEOUT_S)


async def client(running: Controller, versions: types_pb2.Versions) -> Any:
    hello = sessions_pb2.Hello(client="played", pathways_version=versions.pathways, versions=versions)
    return await answered(running.session_call(), sessions_pb2.ClientFrame(hello=hello))


async def worker(running: Controller, host: str, versions: types_pb2.Versions, island: str = "a") -> Any:
    hello = workers_pb2.WorkerHello(host=host, island=island, device_count=1, data_address="127.0.0.1:5", versions=versions)
    return await answered(running.worker_call(), workers_pb2.WorkerFrame(hello=hello))


@pytest.mark.parametrize("who", ["client", "worker"])
def test_one_level_up_or_down_works_and_beyond_that_says_who_is_older(tmp_path: Path, who: str) -> None:
    newer, older = PROTOCOL_LEVEL + 1, OLDEST_PROTOCOL_LEVEL - 1

    async def scenario() -> None:
        async with controller(tmp_path) as running:

            async def play(name: str, versions: types_pb2.Versions) -> Any:
                return await (client(running, versions) if who == "client" else worker(running, name, versions))

            assert (await play("a0", types_pb2.Versions(pathways=OWN))).HasField("welcome"), "before levels were told"
            assert (await play("a1", made(newer, PROTOCOL_LEVEL))).HasField("welcome")
            assert (await play("a2", made(OLDEST_PROTOCOL_LEVEL, max(older, 1)))).HasField("welcome")
            refused = (await play("a3", made(newer, newer))).refused.failure
            assert refused.reason == "VERSION_MISMATCH"
            assert f"the controller is older: install pathways {OWN} where the {who} runs" in refused.message
            assert refused.message.splitlines()[2].split()[:3] == [who, OWN, str(newer)]

    asyncio.run(scenario())


def test_hosts_of_an_island_need_the_compiler_of_the_others_and_clients_one_that_is_served(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with controller(tmp_path) as running:
            assert (await worker(running, "a0", made(2, 1, "0.10.2"))).HasField("welcome")
            other = (await worker(running, "a1", made(2, 1, "0.10.1"))).refused.failure
            assert other.reason == "VERSION_MISMATCH"
            assert "worker a1 has jaxlib 0.10.1 and worker a0 has 0.10.2" in other.message
            assert not other.retryable
            assert (await worker(running, "b0", made(2, 1, "0.10.1"), island="b")).HasField("welcome")
            far = (await client(running, made(2, 1, "0.7.2"))).refused.failure
            assert far.reason == "VERSION_MISMATCH"
            assert "the client has jaxlib 0.7.2, and Pathways serves clients with jaxlib 0.8, 0.9 or 0.10" in far.message
            assert (await client(running, made(2, 1, "0.8.3"))).HasField("welcome")
            near = await client(running, made(2, 1, "0.10.0"))
            told = {name: row.versions.jaxlib for row in near.welcome.versions for name in row.processes}
            assert told == {"controller": "", "worker a0": "0.10.2", "worker b0": "0.10.1"}
            version = await running.clusters().GetVersion(cluster_pb2.GetVersionRequest(), timeout=TIMEOUT_S)
            assert version.versions.protocol_level == PROTOCOL_LEVEL

    asyncio.run(scenario())
