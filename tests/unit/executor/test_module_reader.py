"""Programs are read by a process of their own: what ends it, holds it up or fills its memory refuses one program."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import psutil
import pytest

from tests.unit.executor.driving import Executor, lower, ready_executor

X = np.arange(4, dtype=np.float32)
# Programs of JAX with bytes changed, as `make fuzz` does: one ends MLIR's reader, the other is never done.
DEADLY = zlib.decompress(base64.b85decode(
    "c-"
    "mD^+iKfD5Z(29s+vUzA%qZS5yqHQgh;p{7!k*zn3g`oq;4pEDngdmjl$}Jv~t_@r7!)3{zRdD>}T~Cx{lM^?82TiXJ(kQi;JHx^(&dI1b=>U8E"
    "?nI_&As#>;i@!CX{G~<&clBO&n3pF#42IV|NVN-"
    "`)F%67Mce4NDc!&<Zgzh~a3KqiI&>O9yn%#9$8&2vE=g3^2iB76F?%E;x2yW6T5h2y36`3pN}<e+RwqcE}EofGP6T9kKB-cnbdLIc%cAV5oZrb"
    "}%7NbUb83Hev_N_cRlueGoW1Q}mu8-0AqB>y-"
    "Hfz$7Z%xlb^3mw=a~hqdmxV&nxOTK7=xNmMI5vw;x6N<1OtfzmPh);&~S2h7r~$qBe4|BdaL1~pf0CS+Ei?X@UTUanig(WWg@^{HrG%J?lWc%6"
    "uN`xw<+wso-"
    "+LYY_LI~iV=jm!iOC2wRCZra=1u;yu5ulYJoMaBymR3A{TMh8Wk$5m3xOlD=#{LR(85?Puw=q8hKERuY+PEfLAkEVMz^FRHw2+E44;;C$csVLJ"
    "#G_&A$-5&|Xd7>;$_jYFg4?{P}`=I7cD`cD%n-c9Yx@)Q0mD&b93^njDJ)b{aT)I(o8ZD#f>NI*4{Q`Q9ii7"
))  # fmt: skip
ENDLESS = zlib.decompress(base64.b85decode(
    "c-mD`du!V;5SMzndO{dsOb8)}5JKooiA^Y>l)mUjyN$JUT^VDHVienH-1?FE(bu=x-}?ajSo;c-"
    "Q_2`8olbW@>F$2g+3BCp=4GX3N%a2o+`pT+lP!0f(2+rr2?_$hM&9Z5ha2$o(V~|I=R$}c7g}sB+T^Q^9zD@au7g?uw?(HTP_7VM*p2QBib9}i"
    "8=_+yYbVghHZr-z+S6V6;Ul21>^62R%CKuu#2!FTq6Fv<uuowKINESFaezY{S-"
    "=>|3B?U`<n|73j=}J)+xGrjd3c0lz5CT2$>VqEjSb^B>)@n)#^m`0ZZ*K^A;K4ZBQwYFjdJ)-DH~D%-"
    "$WHeU*!}*ZVx%YtqEx^cjT_zmxq1EC?TY8Qo6QA*IEt?jGjXc3lPu&DrBohdO=NUv;v?Ej%XL~6GfwS49o`Z5#x<v=*mwx(`SIMb3mkMwhS=Vf"
    "g&aD`jO^y&>K!iwrNS^sCny-oU68Qx|XJyS+hD$syHKM_(<*+Nlwx{tdoeOQMn-VIt%nek|58@N@Z1J&x%}yfhsFM&ipV=8=nfpW+|eoF0#h*s"
    "&whySKcBot2l|gDk`heo7YcIUJ(U(5k{dOByp5g?(&hOI<K46slQZ36<4v&_Rm*D%OuwM$W2`NexlM@s7Sf`W({Ojr+SD=lBqNz52TErBBC1f>"
    "%C|6fkVPPQ@RG?r%Ly__uS*b{~%9y@d9-"
    "Bk~~mJdEmZ;$&Gq&XZ3s@6}|@LMZ=g|E>sc5+4U+~L}i^cw9IqzY?D>GWj)g!kXJ*F9>q)KSJ&~65^A{r3xPVbF#"
))  # fmt: skip
_IN_THIS_PROCESS = """
import sys
from pathways_worker.executor import runtime
from pathways_worker.executor.program_formats import read_program
runtime.prepare_process()
read_program(sys.stdin.buffer.read(), 1)
"""
# What a reader does with a program is told by the program; what it says is in the order of PLAN.
_SCRIPT = """
import base64, errno, json, os, resource, signal, sys, threading, time
from pathways_worker.executor import module_reader, runtime
from pathways_worker.executor.failures import Refused

runtime.prepare_process()
words = json.loads(sys.argv[1])
for name, value in words["settings"].items():
    assert hasattr(module_reader, name)
    setattr(module_reader, name, value)
honest = module_reader.read_program
executor, fork, forks, broken = os.getpid(), os.fork, [], []

def forked():
    if os.getpid() != executor:
        forks.append(None)
        if len(forks) in words["forks_that_fail"]:
            raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
    return fork()

os.fork = forked
if words["memory_limit"]:
    resource.setrlimit(resource.RLIMIT_AS, (words["memory_limit"],) * 2)

def told(data, device_count):
    what, _, rest = data.partition(b":")
    if what == b"kill":
        os.kill(os.getpid(), int(rest))
    elif what == b"exit":
        os._exit(int(rest))
    elif what == b"sleep":
        time.sleep(float(rest))
    elif what == b"spin":
        while True:
            pass
    elif what == b"fill":
        bytearray(int(rest))
    elif what == b"pid":
        raise ValueError(os.getpid())
    elif what == b"limit":
        raise ValueError(resource.getrlimit(resource.RLIMIT_AS)[1])
    elif what == b"keeper":
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(60)
    elif what == b"break":
        broken.append(rest)
        raise ValueError("damaged")
    elif broken == [b"to die"]:
        os.kill(os.getpid(), signal.SIGSEGV)
    elif broken == [b"to err"]:
        data = data.replace(b"3xf32", b"9xf32")
    return honest(data, device_count)

module_reader.read_program = told
module_reader.start()
if words["in_a_child"] and (child := os.fork()):
    os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
module_reader.read_program = None  # this process reads nothing of a client's

def outcome(text, session):
    program = base64.b85decode(text) if words["decode"] and text is words["programs"][0] else text.encode()
    try:
        return [kind.shape for kind in module_reader.read(program, 1, session)[1].results]
    except Refused as refusal:
        return str(refusal)

if words["threads"]:
    found = [None] * len(words["programs"])
    def run(index):
        found[index] = outcome(words["programs"][index], words["sessions"][index])
    threads = [threading.Thread(target=run, args=(index,)) for index in range(len(found))]
    for each in threads: each.start()
    for each in threads: each.join()
else:
    found = [outcome(*each) for each in zip(words["programs"], words["sessions"])]
print(json.dumps(found))
"""


def text_of(size: int) -> str:
    return f"module {{ func.func @main(%x: tensor<{size}xf32>) -> tensor<{size}xf32> {{ return %x : tensor<{size}xf32> }} }}"


def run_script(
    *programs: str,
    threads: bool = False,
    decode: bool = False,
    sessions: Sequence[int] = (),
    forks_that_fail: Sequence[int] = (),
    memory_limit: int = 0,
    in_a_child: bool = False,
    **settings: Any,
) -> subprocess.CompletedProcess[str]:
    """`decode`: the first program is base85. `sessions`: whose each is. `forks_that_fail`: of those for readers, from 1.

    `in_a_child`: asked by a process forked behind the start, as fuzzing does.
    """
    words = {
        "programs": programs,
        "settings": settings,
        "threads": threads,
        "decode": decode,
        "sessions": sessions or [1] * len(programs),
        "forks_that_fail": forks_that_fail,
        "memory_limit": memory_limit,
        "in_a_child": in_a_child,
    }
    command = [sys.executable, "-c", _SCRIPT, json.dumps(words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def outcomes(*programs: str, **words: Any) -> tuple[list[Any], str]:
    """What becomes of each program, and what was said beside it."""
    run = run_script(*programs, **words)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout), run.stderr


def readers_of(executor: Executor) -> list[psutil.Process]:
    return psutil.Process(executor.process.pid).children(recursive=True)


def test_read_in_the_process_itself_the_deadly_program_ends_it() -> None:
    run = subprocess.run([sys.executable, "-c", _IN_THIS_PROCESS], input=DEADLY, capture_output=True, timeout=60, check=False)
    assert run.returncode in (-signal.SIGSEGV, -signal.SIGABRT), (run.returncode, run.stderr)


def test_a_program_that_ends_its_reader_is_refused_and_the_executor_computes_on() -> None:
    with ready_executor() as executor:
        honest = executor.load(lower(lambda x: x * 3, X))
        before = {process.pid for process in readers_of(executor)}
        for _ in range(3):
            failure = executor.load(DEADLY).failure
            assert failure.reason == "PROGRAM_REFUSED"
            assert failure.message == (
                "the program is refused because the process that reads programs did not survive it; it is damaged, make it anew"
            )
        assert len(before & {process.pid for process in readers_of(executor)}) == 1
        (result,) = executor.execute(honest.executable_id, [executor.place(X)])
        np.testing.assert_array_equal(executor.fetch(result, X), X * 3)
        again = executor.load(lower(lambda x: x - 1, X))
        (result,) = executor.execute(again.executable_id, [executor.place(X)])
        np.testing.assert_array_equal(executor.fetch(result, X), X - 1)
    assert b"a program ended the process that read it: SIG" in executor.stderr


@pytest.mark.parametrize("end", ["kill:11", "kill:6", "kill:9", "exit:0", "exit:7"])
def test_however_a_reader_ends_the_next_program_is_read(end: str) -> None:
    found, said = outcomes(text_of(2), end, text_of(3))
    assert found[0] == [[2]]
    assert "did not survive it" in found[1]
    assert found[2] == [[3]], said


def test_bytes_over_which_the_reader_is_never_done_are_refused() -> None:
    found, _ = outcomes(base64.b85encode(ENDLESS).decode(), text_of(3), decode=True, _READ_S=0.5)
    assert "it was not read within 0.5 s of a core's time" in found[0]
    assert found[1] == [[3]]


@pytest.mark.parametrize("way", ["spin:", "sleep:60"])
def test_a_program_that_takes_too_long_is_refused_by_the_time_it_had(way: str) -> None:
    found, _ = outcomes(way, text_of(3), _READ_S=0.5, _READ_WALL_S=3)
    assert "it was not read within 0.5 s of a core's time" in found[0]
    assert found[1] == [[3]]


def test_a_program_that_wants_too_much_memory_is_refused() -> None:
    found, _ = outcomes(f"fill:{1 << 29}", text_of(3), READER_MEMORY_BYTES=1 << 28)
    assert found[0] == "the program could not be read (MemoryError); make it anew"
    assert found[1] == [[3]]


def test_a_reader_is_replaced_behind_many_programs_and_behind_a_large_one() -> None:
    found, _ = outcomes(*(["pid:"] * 5), READER_PROGRAMS_MAX=2)
    assert [found[0] == found[1], found[1] == found[2], found[2] == found[3], found[3] == found[4]] == [True, False, True, False]
    found, _ = outcomes("pid:", "pid:" + "x" * 2000, "pid:", READER_PROGRAM_BYTES=1000)
    assert found[0] == found[1] != found[2]


def test_no_reader_reads_programs_of_two_sessions() -> None:
    found, said = outcomes(*(["pid:"] * 5), sessions=[1, 1, 2, 2, 1])
    assert found[0] == found[1] != found[2] == found[3] != found[4] != found[0]
    assert not said


def test_what_a_program_broke_in_its_reader_changes_no_program_of_another_session() -> None:
    found, _ = outcomes("break:to err", text_of(3), text_of(3), sessions=[1, 1, 2])
    assert found[1:] == [[[9]], [[3]]]


def test_a_program_is_not_refused_for_what_another_broke_in_its_reader() -> None:
    found, said = outcomes("break:to die", text_of(3), text_of(4))
    assert found[1:] == [[[3]], [[4]]]
    assert said.count("a program ended the process that read it: SIGSEGV") == 1


def test_a_program_that_ends_two_readers_is_refused_and_none_is_asked_again_behind_a_fresh_one() -> None:
    found, said = outcomes("kill:11", text_of(2), "kill:11", text_of(3))
    assert ["did not survive it" in str(outcome) for outcome in found] == [True, False, True, False]
    assert said.count("a program ended the process that read it: SIGSEGV") == 3


def test_readers_are_forked_as_soon_as_that_succeeds_and_no_program_is_blamed() -> None:
    found, said = outcomes(text_of(2), "pid:", text_of(3), sessions=[1, 2, 3], forks_that_fail=[1, 2, 4, 6])
    assert found[0] == [[2]]
    assert found[1].startswith("the program could not be read (")
    assert found[2] == [[3]]
    assert said.splitlines() == [
        f"no process to read programs can be forked (Resource temporarily unavailable); tried again in {pause} s"
        for pause in ("0.05", "0.1", "0.05", "0.05")
    ]


def test_an_executor_whose_reader_goes_while_it_reads_ends_and_blames_no_program() -> None:
    for programs in (["keeper:"], [text_of(2), "keeper:"]):
        run = run_script(*programs)
        assert run.returncode == 1, (run.stdout, run.stderr)
        assert "executor ends: the process that reads programs is gone" in run.stderr


def test_a_process_that_does_not_own_the_readers_goes_on_when_one_ends() -> None:
    found, _ = outcomes("kill:11", text_of(3), in_a_child=True)
    assert "did not survive it" in found[0]
    assert found[1] == [[3]]


def test_what_ends_the_process_that_forks_readers_is_said() -> None:
    run = run_script("kill:11", text_of(3), _REST_S="no number")
    assert run.returncode == 1, (run.stdout, run.stderr)
    assert "a process that reads programs ends:\nTraceback" in run.stderr
    assert "TypeError" in run.stderr


def test_a_limit_of_memory_that_the_executor_was_given_holds_for_its_readers() -> None:
    given = 1 << 40
    found, _ = outcomes("limit:", text_of(3), memory_limit=given)
    assert found == [f"the program could not be read ({given}); make it anew", [[3]]]


def test_several_threads_read_at_once_and_each_gets_its_own() -> None:
    sizes = list(range(1, 25))
    programs = [text_of(size) if size % 5 else "kill:11" for size in sizes]
    found, _ = outcomes(*programs, threads=True)
    for size, outcome in zip(sizes, found, strict=True):
        assert outcome == [[size]] if size % 5 else "did not survive" in outcome, (size, outcome)


def test_readers_end_with_a_killed_executor() -> None:
    executor = Executor()
    executor.begin()
    executor.event("epoch_ready")
    executor.load(lower(lambda x: x, X))
    readers = readers_of(executor)
    assert len(readers) == 2
    executor.process.send_signal(signal.SIGKILL)
    _, alive = psutil.wait_procs(readers, timeout=20)
    assert not alive
    executor.close()


def test_an_executor_whose_reader_is_gone_ends_and_says_so() -> None:
    executor = Executor()
    executor.begin()
    executor.event("epoch_ready")
    readers = readers_of(executor)
    for process in sorted(readers, key=lambda process: process.ppid() != executor.process.pid):
        process.kill()
    psutil.wait_procs(readers[1:], timeout=20)
    executor.send(executor.load_command(lower(lambda x: x, X)))
    assert executor.process.wait(60) == 1
    executor.close()
    assert b"executor ends: the process that reads programs is gone" in executor.stderr


def test_readers_hold_nothing_of_the_executor() -> None:
    with ready_executor() as executor:
        executor.load(lower(lambda x: x, X))
        for process in readers_of(executor):
            assert process.name() == "pathways-reader"
            assert process.num_threads() == 1
            held = [
                os.readlink(f"/proc/{process.pid}/fd/{name}") for name in os.listdir(f"/proc/{process.pid}/fd") if int(name) > 2
            ]
            assert [name.partition(":")[0] for name in held] == ["socket"], held
