"""The same faults in plain JAX, Ray and Monarch: `fault_peers.py jax|ray|monarch kill|stop SAMPLES`, one JSON line per sample.

A line has seconds to the error where the caller waits (`detected_s`, null: nothing within the limit), seconds until as many
processes work again (`again_s`), and what the error said. Ray and Monarch are imported from the environment that runs this.

It ends with whoever started it, and its members of plain JAX with it: one whose peer is stopped would wait in its all-reduce.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

LIMIT_S = 15.0
HANG_S = 1e6
# Names the pid of whoever started this, in the environment.
PARENT = "FAULT_PEERS_PARENT"
_PR_SET_PDEATHSIG = 1


def end_with_parent(number: signal.Signals) -> None:
    """The kernel sends it when the parent ends. By itself: where peers are installed there is nothing of ours to import."""
    parent = int(os.environ.get(PARENT, os.getppid()))
    if ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(number), 0, 0, 0) or os.getppid() != parent:
        raise SystemExit("who started this is gone")


def tell(detected_s: float | None, again_s: float, error: BaseException | str, victim: int | str) -> None:
    text = error if isinstance(error, str) else f"{type(error).__name__}: {error}"
    print(json.dumps({"detected_s": detected_s, "again_s": again_s, "error": text[:2000], "victim": str(victim)}), flush=True)


# ---- plain JAX: two processes over gloo --------------------------------------------------------------------------------


def jax_member(rank: int, port: str) -> None:
    """All-reduces for ever; says that it runs, and what ended it."""
    import jax
    import numpy as np
    from jax.sharding import Mesh, NamedSharding
    from jax.sharding import PartitionSpec as P

    jax.distributed.initialize(f"127.0.0.1:{port}", 2, rank)
    rows = NamedSharding(Mesh(np.array(jax.devices()), ("x",)), P("x"))
    add = jax.jit(jax.shard_map(lambda x: jax.lax.pmean(x, "x"), mesh=rows.mesh, in_specs=P("x"), out_specs=P("x")))
    x = jax.make_array_from_callback((2,), rows, lambda _: np.ones(1, np.float32))
    try:
        for step in range(1 << 40):
            x = add(x)
            x.block_until_ready()
            if step == 20:
                print("running", flush=True)
    except BaseException as error:
        print(json.dumps({"at_s": time.time(), "error": f"{type(error).__name__}: {error}"[:2000]}), flush=True)
        os._exit(3)


def _start_jax() -> list[subprocess.Popen[str]]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = str(listener.getsockname()[1])
    words = [sys.executable, __file__, "jax-member"]
    environment = os.environ | {PARENT: str(os.getpid())}
    members = [
        subprocess.Popen([*words, str(rank), port], env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        for rank in (0, 1)
    ]
    for member in members:
        assert member.stdout is not None
        # Gloo writes to the same output.
        said = next((line for line in member.stdout if line.startswith(("running", "{"))), "nothing")
        assert said == "running\n", f"a member of plain JAX said {said}"
    return members


def _end(members: list[subprocess.Popen[str]]) -> None:
    for member in members:
        member.kill()
        member.wait(20)


def of_jax(number: signal.Signals) -> None:
    members = _start_jax()
    survivor, victim = members
    assert survivor.stdout is not None
    began_s = time.time()
    victim.send_signal(number)
    lines: list[str] = []
    reader = threading.Thread(target=lambda: lines.append(survivor.stdout.readline()), daemon=True)
    reader.start()
    reader.join(LIMIT_S)
    answer = json.loads(lines[0]) if lines and lines[0] else None
    code = survivor.poll()
    ended = f"the process ended with {code}" if lines else f"nothing within {LIMIT_S:.0f} s"
    detected_s = answer["at_s"] - began_s if answer else (time.time() - began_s if lines else None)
    _end(members)
    restarted_s = time.time()
    _end(_start_jax())
    again_s = (detected_s or 0.0) + time.time() - restarted_s
    tell(detected_s, again_s, answer["error"] if answer else ended, victim.pid)


# ---- Ray ---------------------------------------------------------------------------------------------------------------


def of_ray(number: signal.Signals) -> None:
    import ray

    if not ray.is_initialized():
        ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False, object_store_memory=200 << 20)

    @ray.remote(num_cpus=0)
    class Member:
        def pid(self) -> int:
            return os.getpid()

        def work(self) -> None:
            time.sleep(HANG_S)

    member = Member.remote()
    victim = ray.get(member.pid.remote())
    under_way = member.work.remote()
    time.sleep(0.5)  # it is in the call

    def anew() -> None:
        ray.get(Member.remote().pid.remote())

    _take(number, victim, str(victim), lambda: ray.get(under_way, timeout=LIMIT_S), anew, ray.exceptions.GetTimeoutError)


# ---- Monarch -----------------------------------------------------------------------------------------------------------


def of_monarch(number: signal.Signals) -> None:
    import asyncio

    import monarch.actor
    from monarch.actor import Actor, endpoint, this_host

    monarch.actor.unhandled_fault_hook = lambda failure: None

    class Member(Actor):
        @endpoint
        async def pid(self) -> int:
            return os.getpid()

        @endpoint
        async def work(self) -> None:
            await asyncio.sleep(HANG_S)

    def start() -> tuple[Any, list[int]]:
        members = this_host().spawn_procs(per_host={"p": 2}).spawn("member", Member)
        return members, [pid for _, pid in members.pid.call().get().items()]

    members, pids = start()
    under_way = members.slice(p=1).work.call_one()
    time.sleep(0.5)  # it is in the call
    _take(number, pids[1], "'p': 1/", lambda: under_way.get(timeout=LIMIT_S), start, TimeoutError)


def _take(
    number: signal.Signals,
    victim: int,
    name: str,
    wait: Callable[[], Any],
    anew: Callable[[], Any],
    late: type[BaseException],
) -> None:
    """`name`: how the peer calls the process that gets the signal."""
    began_s = time.time()
    os.kill(victim, number)
    try:
        wait()
        raise SystemExit("the call came back")
    except late:
        detected_s, error = None, f"nothing within {LIMIT_S:.0f} s"
    except Exception as found:
        detected_s, error = time.time() - began_s, f"{type(found).__name__}: {found}"
    if number == signal.SIGSTOP:
        os.kill(victim, signal.SIGKILL)
    restarted_s = time.time()
    anew()
    tell(detected_s, (detected_s or 0.0) + time.time() - restarted_s, error, name)


def main() -> None:
    peer, what = sys.argv[1], sys.argv[2]
    if peer == "jax-member":
        end_with_parent(signal.SIGKILL)
        jax_member(int(what), sys.argv[3])
        return
    end_with_parent(signal.SIGTERM)
    number = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}[what]
    for _ in range(int(sys.argv[3])):
        {"jax": of_jax, "ray": of_ray, "monarch": of_monarch}[peer](number)
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
