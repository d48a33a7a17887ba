"""Every rule of the simulation is shown to bite: a patch in tests/mutants names the test of that very rule."""

from __future__ import annotations

import re

from tests.simulation import test_shares_simulation, test_simulation
from tests.tidy.tree import ROOT

# That a seed which breaks breaks again is looked at with every seed that breaks.
_OF_ALL = "replay"


def named_by_mutants() -> set[str]:
    found = [re.search(r"^test: (\S+)$", path.read_text(), re.MULTILINE) for path in (ROOT / "tests" / "mutants").glob("*.patch")]
    return {named[1].rpartition("::")[2] for named in found if named is not None}


def test_every_rule_has_a_mutant_that_it_must_catch() -> None:
    wanted = [f"test_the_system_holds[{text}]" for name, text in test_simulation.SENTENCES.items() if name != _OF_ALL]
    wanted += [f"test_the_policies_hold[{text}]" for text in test_shares_simulation.SENTENCES.values()]
    wanted += ["test_the_stuck_host_is_named_in_time_and_nobody_else_is"]
    assert [text for text in wanted if text not in named_by_mutants()] == []
