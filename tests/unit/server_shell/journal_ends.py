"""Ends a process at every point of every write of a journal, starts anew, and tells what is there: `journal_ends.py FOLDER`.

One line of JSON per end: after how many acts that were acknowledged (-1: while it opened), at which point, and what the next life
finds. The last line is of a life that nothing ended. Processes are forked, which is quick; nothing here may start a thread.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pathways_common.model.registered import Origin
from pathways_server.core.tenant_events import Death
from pathways_server.shell.journal import Journal, Point, ProgramRow
from pathways_server.shell.tenant_journal import Act, TenantJournal, UsageRow


class Life:
    """A journal that is open. `end_at`: the number of the point at which the process ends, from 1."""

    def __init__(self, folder: Path, end_at: int = 0) -> None:
        self.points = 0

        def reached(_journal: Journal, point: Point) -> None:
            self.points += 1
            if self.points == end_at:
                (folder / "point").write_text(point.name)
                os.kill(os.getpid(), signal.SIGKILL)

        Journal.reached = reached  # type: ignore[method-assign]
        self.journal = Journal(folder)
        # A process is killed here and not the machine, so nothing is lost that the kernel has.
        self.journal.rows("pragma synchronous = off")
        self.tenants = TenantJournal(self.journal, audit_lines_max=3, usage_days_max=2)

    def found(self) -> dict[str, Any]:
        """Everything that is in it, but for counters."""
        programs = {}
        for row in self.journal.kept_programs():
            contents = [self.journal.program_bytes(each.program)[0].decode() for each in row.origins]
            programs[f"{row.name} {row.version}"] = [row.graph.decode(), *contents]
        return {
            "programs": programs,
            "tokens": {name: token.decode() for name, token in self.tenants.tokens().items()},
            "settings": self.tenants.settings(),
            "policies": self.tenants.policies(),
            "usage": [list(row) for row in self.tenants.usage()],
            "deaths": [death.program for death in self.tenants.deaths()],
            "audit": [act.subject for _, act in self.tenants.audit(10)],
        }


def _by(subject: str) -> Act:
    return Act(1, "default", "peer", "Do", subject)


def _program(version: int) -> ProgramRow:
    return ProgramRow("ads", "train", version, f"graph {version}".encode(), (Origin("p", (0,)), Origin(f"q{version}", (0, 1))))


def _bytes(version: int) -> dict[str, tuple[bytes, bytes]]:
    return {"p": (b"bytes of p", b""), f"q{version}": (f"bytes of q{version}".encode(), b"o")}


# What the acts do is written down in plain dictionaries in test_journal_ends.py, in this order.
ACTS: tuple[Callable[[Life], object], ...] = (
    lambda life: life.journal.next_session(),
    lambda life: life.journal.next_incarnation(),
    lambda life: life.tenants.add("ads", b"t1", {"weight": "2", "priority": "1"}, _by("add")),
    lambda life: life.tenants.set_settings("ads", {"weight": "3"}, _by("weigh")),
    lambda life: life.tenants.set_token("ads", b"t2", _by("token")),
    lambda life: life.tenants.set_policy("a", "priority", _by("policy")),
    lambda life: life.journal.keep_program(_program(1), _bytes(1)),
    lambda life: life.journal.keep_program(_program(2), _bytes(2)),
    lambda life: life.journal.forget_program("ads", "train", 1),
    lambda life: life.tenants.add_usage([UsageRow("2026-01-01", "ads", 5, 6), UsageRow("2026-01-02", "ads", 1, 1)]),
    lambda life: life.tenants.add_usage([UsageRow("2026-01-02", "ads", 2, 3), UsageRow("2026-01-03", "ads", 4, 4)]),
    lambda life: life.tenants.add_death(Death("p", "train", "ads", "a0", "SIGSEGV", 7)),
    lambda life: life.tenants.forget_deaths("p", _by("allow")),
    lambda life: life.tenants.remove("ads", _by("remove")),
)


def _play(folder: Path, end_at: int) -> None:
    """In a process of its own: does everything, and says after each act that it is done."""
    life = Life(folder, end_at)
    for number, act in enumerate((lambda _: None, *ACTS)):
        act(life)
        (folder / "acknowledged").write_text(str(number))
    life.journal.close()


def _forked(run: Callable[[], object]) -> int:
    """How a child ended in which something ran."""
    child = os.fork()
    if child == 0:
        try:
            run()
        except BaseException as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
            os._exit(1)
        sys.stdout.flush()
        os._exit(0)
    return os.waitpid(child, 0)[1]


def _look(folder: Path, acknowledged: int, point: str) -> None:
    """The next life: what it finds, and which numbers it gives."""
    life = Life(folder)
    found = life.found()
    numbers = {"term": life.journal.term, "session": life.journal.next_session(), "incarnation": life.journal.next_incarnation()}
    print(json.dumps({"acknowledged": acknowledged, "point": point, "found": found} | numbers))
    life.journal.close()


def main(folder: Path) -> None:
    """Until a life is through that was not ended."""
    for end_at in range(1, 1000):
        place = folder / str(end_at)
        place.mkdir(mode=0o700)
        status = _forked(lambda place=place, end_at=end_at: _play(place, end_at))  # type: ignore[misc]
        ended = os.WIFSIGNALED(status)
        assert ended or status == 0, f"a life ended with {status}"
        told = place / "acknowledged"
        acknowledged = int(told.read_text()) if told.exists() else -1
        point = (place / "point").read_text() if ended else ""
        assert _forked(lambda place=place, acknowledged=acknowledged, point=point: _look(place, acknowledged, point)) == 0  # type: ignore[misc]
        if not ended:
            return
    raise AssertionError("lives are ended without an end")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
