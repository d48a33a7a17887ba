"""`make fuzz MINUTES=`: cases of fresh randomness for a door, a controller, its link port and the compile step, until time is up.

A case that fails is printed with what runs it again: `fuzz.py --replay door SEED`, or `--replay module SEED`. Modules are bytes
of recorded programs that were changed; each is compiled in a process of its own, so that what ends one does no more.
"""

from __future__ import annotations

import argparse
import logging
import os
import random
import secrets
import signal
import sys
import time
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from pathways_proto.v1 import workers_pb2
from pathways_worker.executor import loading, module_reader, runtime

from tests.fuzz.examples import ControllerCase, DoorCase, Step, more_operations
from tests.fuzz.frames import run_cases
from tests.fuzz.recording import KEPT, Recorded, record

_MODULE_S = 30.0
_MEMORY_BYTES = 24 << 30
_KINDS = ("door", "controller", "module", "frames")
# To start a controller takes as long as some strangers.
_STRANGERS = 20


def steps_of(seed: int) -> list[Step]:
    """The steps of a case."""
    choose = random.Random(seed)
    return [Step(choose.randrange(1000), choose.randrange(1 << 32)) for _ in range(choose.randint(1, 8))]


def changed_program(programs: list[bytes], seed: int) -> bytes:
    """Bytes of a program with some of them changed, cut, doubled or moved."""
    choose = random.Random(seed)
    data = bytearray(choose.choice(programs))
    for _ in range(choose.choice((1, 1, 2, 4, 16))):
        at = choose.randrange(len(data))
        match choose.randrange(5):
            case 0:
                data[at] ^= 1 << choose.randrange(8)
            case 1:
                data[at] = choose.choice((0, 1, 0x7F, 0x80, 0xFF))
            case 2:
                del data[at : at + choose.choice((1, 2, 8))]
            case 3:
                data[at:at] = data[at : at + choose.choice((1, 4, 16))]
            case _:
                data[at:at] = choose.randbytes(choose.choice((1, 2)))
        data = data or bytearray(b"ML")
    return bytes(data)


def module_outcome(program: bytes, options: bytes) -> str:
    """Empty if a process compiles the program or refuses it in a sentence; else what became of the process."""
    pid = os.fork()
    if pid == 0:
        _compile(program, options)
    deadline_s = time.monotonic() + _MODULE_S
    while time.monotonic() < deadline_s:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            if os.WIFSIGNALED(status):
                return f"the process ended by {signal.Signals(os.WTERMSIG(status)).name}"
            return "" if os.WEXITSTATUS(status) == 0 else "it was refused without a sentence"
        time.sleep(0.005)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return f"the process was not done after {_MODULE_S:g} s"


def _compile(program: bytes, options: bytes) -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 2)
    try:
        machine = runtime.Runtime(0, 1, "", 2)
        load = workers_pb2.Load(executable_id=1, program=program, options=options, epoch=1, devices=[0])
        _, answer = loading.carry_out(machine, load, lambda *_: None, {}, False)  # type: ignore[arg-type,return-value]
        sentence = answer.failure.message
        fine = not answer.HasField("failure") or (len(sentence.split()) > 3 and "Traceback" not in sentence)
        os._exit(0 if fine else 3)
    finally:
        os._exit(4)


class Fuzzer:
    """Runs cases by kind and seed."""

    def __init__(self) -> None:
        logging.disable()  # what a door says of each client is no news here
        runtime.prepare_process()
        # As executors do; what it does not come through is refused, and no finding.
        module_reader.start()
        self._recorded = Recorded.read(KEPT)
        compiles = [each.compile for each in self._recorded.operations if each.WhichOneof("operation") == "compile"]
        self._programs = [each.program for each in compiles]
        self._options = [each.options for each in compiles]
        self._door = DoorCase(self._recorded)
        self._controller = ControllerCase(self._recorded, more_operations())

    def problem(self, kind: str, seed: int) -> str:
        """What is wrong with a case; empty if nothing is."""
        if kind == "module":
            choose = random.Random(seed)
            return module_outcome(changed_program(self._programs, seed), choose.choice(self._options))
        if kind == "frames":
            try:
                run_cases(list(range(seed * _STRANGERS, (seed + 1) * _STRANGERS)))
            except Exception:
                return traceback.format_exc()
            return ""
        try:
            (self._door if kind == "door" else self._controller).run(steps_of(seed))
        except Exception:
            return traceback.format_exc()
        return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--kinds", nargs="*", default=_KINDS, choices=_KINDS)
    parser.add_argument("--replay", nargs=2, metavar=("KIND", "SEED"))
    parser.add_argument("--record", action="store_true", help="keep another session as the one that all cases are made from")
    options = parser.parse_args()
    if options.record:
        record().write(KEPT)
        return 0
    fuzzer = Fuzzer()
    if options.replay:
        problem = fuzzer.problem(options.replay[0], int(options.replay[1]))
        print(problem or "nothing is wrong with it any more")
        return 1 if problem else 0
    first = secrets.randbits(40)
    deadline_s = time.monotonic() + options.minutes * 60
    counts = dict.fromkeys(options.kinds, 0)
    print(f"fuzzing from seed {first}", flush=True)
    found = 0
    while time.monotonic() < deadline_s:
        for kind in options.kinds:
            seed = first + counts[kind]
            counts[kind] += 1
            if problem := fuzzer.problem(kind, seed):
                found += 1
                print(f"{kind} {seed}: {problem.strip()}\n  again: tests/fuzz/fuzz.py --replay {kind} {seed}", flush=True)
    print(f"{', '.join(f'{count} of {kind}' for kind, count in counts.items())}; {found} with a fault")
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
