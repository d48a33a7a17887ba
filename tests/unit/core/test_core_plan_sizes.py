"""Properties of every plan: how large it is, and that its steps compute what the graph says, whatever the graph."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pathways_common.model import graph
from pathways_common.model.array import ArraySpec
from pathways_server.core import effects as out
from pathways_server.core.plan import Bound, Free, Launch, Move, Plan
from pathways_server.core.plans import affected_by_argument, affected_by_step, load
from pathways_server.rpc.encode_programs import command_table
from pathways_server.shell.tickets import Tickets

from tests.unit.core.core_graphs import Writer, columns, everywhere, plan_of, rows, two_islands

# ---- sizes ----------------------------------------------------------------------------------------------------------

SHARDS = (2, 4, 8, 16, 32, 64)


def field_count(value: object) -> int:
    """Every number, word and sharding byte counts one."""
    if is_dataclass(value):
        return sum(field_count(getattr(value, each.name)) for each in fields(value))
    if isinstance(value, tuple):
        return sum(field_count(each) for each in value)
    return max(1, len(value)) if isinstance(value, bytes) else 1


def loaded(plan: Plan, writer: Writer) -> out.LoadPlan:
    bound = load(writer.driver.core.state, plan)
    assert isinstance(bound, Bound), bound
    return bound.command


def encoded_bytes(command: out.LoadPlan) -> int:
    _, encode = command_table(Tickets(b"k" * 32), lambda name: "127.0.0.1:40000")[out.LoadPlan]
    return len(encode(command))


def handed_over(shards: int) -> tuple[Plan, out.LoadPlan]:
    """A on island a by rows, B on island b by columns: every shard of A has a part of every shard of B. One host per shard."""
    near, far = tuple(range(shards)), tuple(range(shards, 2 * shards))
    by_rows, by_columns = rows(*near, size=64), columns(*far, size=64)
    writer = Writer(two_islands(hosts=shards, devices=1), (by_rows,))
    writer.node(writer.computation((by_rows,), (by_rows,)), (0, 0), name="A")
    writer.node(writer.computation((by_columns,), (by_columns,)), (1, 0), name="B")
    plan = plan_of(writer.driver, writer.program((2, 0)))
    return plan, loaded(plan, writer)


@pytest.mark.parametrize("shards", [1, 4, 16, 64])
def test_a_chain_of_two_computations_has_four_nodes_and_as_many_steps_whatever_its_shard_count(shards: int) -> None:
    plan, command = handed_over(shards)
    assert [type(node.kind).__name__ for node in plan.nodes] == [
        "ArgumentKind",
        "ComputationKind",
        "ComputationKind",
        "ResultKind",
    ]
    kinds = [type(step) for step in command.steps]
    assert kinds == [out.PlanLaunch, out.PlanMove, out.PlanFree, out.PlanLaunch, out.PlanFree]
    assert (command.slot_count, len(command.specs), len(command.hosts)) == (4, 2, 2 * shards)


def test_a_plan_grows_by_the_same_amount_with_every_shard_even_if_every_shard_goes_everywhere() -> None:
    sizes = [field_count(handed_over(shards)[1]) for shards in SHARDS]
    per_shard = [(after - before) / shards for before, after, shards in zip(sizes, sizes[1:], SHARDS, strict=False)]
    assert len(set(per_shard)) == 1
    assert per_shard[0] < 30  # two hosts, two specs with devices and shardings, two launches


def test_an_encoded_plan_doubles_at_most_when_its_shards_double() -> None:
    sizes = [encoded_bytes(handed_over(shards)[1]) for shards in SHARDS]
    for before, after, shards in zip(sizes, sizes[1:], SHARDS, strict=False):
        assert after <= 2 * before + 4 * shards  # names of hosts from 10 on have one digit more, at both ends


# ---- what a plan computes -------------------------------------------------------------------------------------------

LAYOUTS = (rows(0, 1), columns(0, 1), everywhere(0, 1), rows(1, 0), rows(2, 3), everywhere(2, 3))
PLACES = ((0, 1), (1, 0), (2, 3))
Value = tuple[int, int]  # node and output


@dataclass
class Drawn:
    writer: Writer
    program: graph.Program
    plan: Plan
    donated: list[frozenset[int]]  # per computation


@st.composite
def programs(draw: st.DrawFn) -> Drawn:
    """Up to 4 computations on overlapping devices of two islands, up to 8 nodes that take anything made before them."""
    at = {place: [spec for spec in LAYOUTS if spec.devices == place] for place in PLACES}
    arguments = draw(st.lists(st.sampled_from(LAYOUTS), max_size=3))
    writer = Writer(two_islands(), tuple(arguments))
    donated: list[frozenset[int]] = []
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.sampled_from(PLACES))
        takes = draw(st.lists(st.sampled_from(at[place]), max_size=3)) if arguments or writer.computations else []
        makes = draw(st.lists(st.sampled_from(at[place]), min_size=0 if writer.computations else 1, max_size=2))
        if not takes and not makes:
            makes = at[place][:1]
        gone = draw(st.frozensets(st.integers(0, len(takes) - 1))) if takes else frozenset()
        donated.append(gone)
        writer.computation(tuple(takes), tuple(makes), place, tuple(gone))
    known: list[Value] = [(0, index) for index in range(len(arguments))]
    made: list[Value] = []
    for _ in range(draw(st.integers(1, 8))):
        usable = [index for index, found in enumerate(writer.computations) if known or not found.parameters]
        if not made:
            usable = [index for index in usable if writer.computations[index].results]
        if not usable:
            continue
        chosen = draw(st.sampled_from(usable))
        computation = writer.computations[chosen]
        inputs = [draw(st.sampled_from(known)) for _ in computation.parameters]
        node = writer.node(chosen, *inputs)
        fresh = [(node, output) for output in range(len(computation.results))]
        known += fresh
        made += fresh
    if not made:
        first = writer.computation((), (at[PLACES[0]][0],), PLACES[0])
        donated.append(frozenset())
        made.append((writer.node(first), 0))
    results = draw(st.lists(st.sampled_from(made), min_size=1, max_size=4, unique=True))
    program = writer.program(*results)
    return Drawn(writer, program, plan_of(writer.driver, program), donated)


def spec_of(program: graph.Program, value: Value) -> ArraySpec:
    kind = program.graphs[0].nodes[value[0]].kind
    if isinstance(kind, graph.ArgumentKind):
        return kind.specs[value[1]]
    assert isinstance(kind, graph.ComputationKind)
    return program.computations[kind.computation].results[value[1]]


def demands(program: graph.Program) -> list[tuple[int, list[tuple[Value, ArraySpec]]]]:
    """Per computation node: the values that it takes, and how it wants them to lie."""
    found = []
    for position, node in enumerate(program.graphs[0].nodes):
        if isinstance(node.kind, graph.ComputationKind):
            wanted = program.computations[node.kind.computation].parameters
            taken = [(edge.node, edge.output) for edge in node.inputs]
            found.append((position, list(zip(taken, wanted, strict=True))))
    return found


class Machine:
    """Carries out steps on values that know what they are: an output of a node, and how it lies. Donates whatever it may."""

    def __init__(self, drawn: Drawn) -> None:
        self.drawn = drawn
        self.plan = drawn.plan
        self.program = drawn.program
        count = len(drawn.plan.arguments)
        self.slots: dict[int, tuple[Value, ArraySpec]] = {
            slot: ((0, slot), spec_of(drawn.program, (0, slot))) for slot in range(count)
        }
        self.made = dict.fromkeys(range(count), 1)
        self.freed: dict[int, int] = {}
        self.gone: dict[int, int] = {}
        self.launched: list[int] = []

    def run(self) -> None:
        for index, step in enumerate(self.plan.steps):
            if isinstance(step, Launch):
                self._launch(step)
            elif isinstance(step, Move):
                self._move(step)
            else:
                for slot in step.slots:
                    assert slot in self.slots, "freed once, and not before it is made"
                    del self.slots[slot]
                    assert slot in self._used_by(index - 1), "freed right behind its last use"

    def _make(self, slot: int, value: Value, spec: ArraySpec) -> None:
        assert slot not in self.made, "made once"
        self.made[slot] = 1
        self.slots[slot] = (value, spec)

    def _used_by(self, index: int) -> tuple[int, ...]:
        step = self.plan.steps[index]
        if isinstance(step, Launch):
            return (*step.arguments, *step.results)
        return (step.source, step.destination) if isinstance(step, Move) else ()

    def _launch(self, step: Launch) -> None:
        self.launched.append(step.node)
        wanted = dict(demands(self.program))[step.node]
        held = [self.slots[slot] for slot in step.arguments]
        assert held == wanted, "every parameter gets its value, in its layout"
        assert not [slot for slot in step.arguments if slot in self.gone], "no value is used after it was donated"
        kind = self.program.graphs[0].nodes[step.node].kind
        assert isinstance(kind, graph.ComputationKind)
        for position in self.drawn.donated[kind.computation]:
            if position not in step.non_donatable:
                slot = step.arguments[position]
                assert step.arguments.count(slot) == 1, "a value that is passed twice is not donated"
                self.gone[slot] = 1
        results = self.program.computations[kind.computation].results
        for output, slot in enumerate(step.results):  # a computation without results has a hidden one
            self._make(slot, (step.node, output), results[output] if results else everywhere())

    def _move(self, step: Move) -> None:
        value, spec = self.slots[step.source]
        assert step.source not in self.gone, "no value is moved after it was donated"
        places = (self.plan.specs[step.source_spec], self.plan.specs[step.destination_spec])
        names = {"a": 0, "b": 2}  # the first virtual device of each island
        have, want = (
            next(
                known
                for known in LAYOUTS
                if (known.shape, known.sharding) == (placed.spec.shape, placed.spec.sharding)
                and known.devices == tuple(names[placed.placement.island.name] + at for at in placed.spec.devices)
            )
            for placed in places
        )
        assert have == spec, "the source lies as the move says"
        assert want != have, "nothing is moved to where it is"
        self._make(step.destination, value, want)


@settings(max_examples=150, deadline=None)
@given(programs())
def test_the_steps_of_any_plan_compute_what_its_graph_says_and_leave_only_arguments_and_results(drawn: Drawn) -> None:
    machine = Machine(drawn)
    machine.run()
    plan = drawn.plan
    assert machine.launched == [position for position, _ in demands(drawn.program)]
    assert list(machine.made) == list(range(plan.slot_count)), "slots are numbered in the order in which they are made"
    left = {*range(len(plan.arguments)), *plan.results}
    assert {*machine.slots} == left
    wanted = [(edge.node, edge.output) for edge in drawn.program.graphs[0].nodes[-1].inputs]
    assert [machine.slots[slot][0] for slot in plan.results] == wanted
    assert not [slot for slot in plan.results if slot in machine.gone], "no result is donated"


@settings(max_examples=150, deadline=None)
@given(programs())
def test_every_value_moves_once_to_each_layout_in_which_it_is_wanted_right_before_the_first_node_that_wants_it(
    drawn: Drawn,
) -> None:
    first: dict[tuple[Value, ArraySpec], int] = {}
    for position, inputs in demands(drawn.program):
        for value, wanted in inputs:
            if wanted != spec_of(drawn.program, value):
                first.setdefault((value, wanted), position)
    moves: list[int] = []
    waiting = 0
    for step in drawn.plan.steps:
        if isinstance(step, Move):
            waiting += 1
        elif isinstance(step, Launch):
            moves += [step.node] * waiting
            waiting = 0
    assert moves == list(first.values())
    assert waiting == 0


@settings(max_examples=100, deadline=None)
@given(programs())
def test_a_donated_parameter_is_kept_only_if_its_value_has_another_use(drawn: Drawn) -> None:
    steps = drawn.plan.steps
    for index, step in enumerate(steps):
        if isinstance(step, Launch):
            for position in step.non_donatable:
                slot = step.arguments[position]
                later = any(
                    slot in each.arguments if isinstance(each, Launch) else isinstance(each, Move) and slot == each.source
                    for each in steps[index + 1 :]
                )
                assert later or slot in drawn.plan.results or step.arguments.count(slot) > 1


def descendants(program: graph.Program, start: Value | int) -> set[int]:
    """Nodes that need a value, or what a node makes."""
    nodes = program.graphs[0].nodes
    found: set[int] = set() if isinstance(start, tuple) else {start}
    for position, node in enumerate(nodes):
        if any(edge.node in found or (edge.node, edge.output) == start for edge in node.inputs):
            found.add(position)
    return found


@settings(max_examples=100, deadline=None)
@given(programs())
def test_a_result_depends_on_a_step_or_an_argument_if_its_node_comes_after_it_in_the_graph(drawn: Drawn) -> None:
    edges = drawn.program.graphs[0].nodes[-1].inputs
    for index, step in enumerate(drawn.plan.steps):
        if isinstance(step, Launch):
            below = descendants(drawn.program, step.node)
            assert affected_by_step(drawn.plan, index) == {at for at, edge in enumerate(edges) if edge.node in below}
        elif isinstance(step, Free):
            assert affected_by_step(drawn.plan, index) == set()
    for index in range(len(drawn.plan.arguments)):
        below = descendants(drawn.program, (0, index))
        assert affected_by_argument(drawn.plan, index) == {at for at, edge in enumerate(edges) if edge.node in below}


@settings(max_examples=100, deadline=None)
@given(programs())
def test_every_host_with_an_argument_a_launch_or_an_end_of_a_move_takes_part_and_no_other(drawn: Drawn) -> None:
    """Island a has the host of devices 0 and 1, island b that of 2 and 3."""
    program = drawn.program
    used = {device for spec in drawn.writer.arguments for device in spec.devices}
    for _, inputs in demands(program):
        used |= {device for _, wanted in inputs for device in wanted.devices}
    nodes = [node.kind for node in program.graphs[0].nodes]
    for kind in nodes:
        if isinstance(kind, graph.ComputationKind):
            found = program.computations[kind.computation]
            used |= {device for spec in (*found.parameters, *found.results) for device in spec.devices}
    command = loaded(drawn.plan, drawn.writer)
    assert [host.name for host in command.hosts] == [name for name, first in (("a0", 0), ("b0", 2)) if {first, first + 1} & used]
