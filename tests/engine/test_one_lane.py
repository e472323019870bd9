"""The last runs of a queue, one after the other in one lane: the same runs."""

import dataclasses
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxelim as je
from benchmarks.calls import planned
from jaxelim import engine, scope
from tests import digests
from tests.engine.test_invariance import COMMON, SELECTIVE, equal

pytestmark = pytest.mark.devices
SMALL = je.Instance(np.random.default_rng(0).normal(size=(12, 5)), [1.0, 0.3, -0.2, 0.1, 0.0])


def simulated(shrink, **more):
    layout = je.Engine(shrink=shrink, **more.pop("layout", {"devices": 1}))
    settings = {**COMMON, "stopping": (je.LLR(), SELECTIVE), **more}
    rule = settings.pop("rule", je.LinGapE())
    return je.simulate(SMALL, je.BestArm(), rule, engine=layout, **settings)


@pytest.fixture(scope="module")
def stayed():
    return simulated(False)


def alone():
    """The programs of one lane that have been compiled."""
    return {p for p in engine.program.values() if p.spec.lanes == 1 and p.compiled}


def test_the_last_runs_move_to_one_lane(stayed):
    """When the queue is empty. The program of one lane is traced once."""
    before = set(engine.program.values())
    moved = simulated(True, layout={"devices": 1, "lanes": 32})
    equal(stayed, moved)
    made = set(engine.program.values()) - before
    assert {p.spec.lanes for p in made} == {1, 32} and {p.traces for p in made} == {1}
    assert moved.timings["samples_drawn"] == stayed.timings["samples_drawn"]
    assert moved.timings["samples_computed"] < stayed.timings["samples_computed"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "layout", [{"devices": 1, "lanes": 32, "chunk": 16}, {"lanes": 16, "chunk": 16}], ids=repr
)
def test_on_one_device_and_on_all(stayed, layout):
    kept, moved = (simulated(shrink, layout=dict(layout)) for shrink in (False, True))
    equal(stayed, kept)
    equal(stayed, moved)
    assert moved.timings["samples_drawn"] == kept.timings["samples_drawn"]
    assert moved.timings["samples_computed"] < kept.timings["samples_computed"]
    assert layout["chunk"] in {p.spec.chunk for p in alone()}


def test_never(stayed):
    """`shrink=False` keeps the lanes, and compiles nothing else."""
    before = set(engine.program.values())
    assert all(p.spec.lanes > 1 for p in set(engine.program.values()) - before)
    equal(stayed, simulated(False))
    assert set(engine.program.values()) == before


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class Wrong(je.Uniform):
    """Chooses an arm out of range, where the counts of two arms are far apart by noise."""

    def choose(self, view, state):
        arm, state = super().choose(view, state)
        late = view.t + 40 * (view.means[0] > view.means[1]).astype(jnp.int32) > 120
        return jnp.where(late, 99, arm), state


@pytest.mark.slow
def test_the_run_that_fails_first_is_named_as_by_many_lanes():
    """One lane meets run 0 before the others; here another fails in an earlier chunk."""
    said = []
    for shrink in (False, True):
        with pytest.raises(je.errors.RuleError) as error:
            simulated(shrink, rule=Wrong(), stopping=je.LLR(), layout={"devices": 1, "chunk": 8})
        said.append(str(error.value))
    assert said[0] == said[1] and "chose arm 99" in said[0]


def compiled_text(rule, lanes, problem=None, **more):
    """The compiled program of `lanes` lanes of a rule on `SMALL`."""
    settings = dict(
        delta=0.1, stopping=SELECTIVE, elimination=SELECTIVE, runs=16, seed=0, max_samples=300,
        engine=je.Engine(lanes=16, devices=1),
    )  # fmt: skip
    with scope.engine():
        spec, inputs, queue = planned((SMALL, problem or je.BestArm(), rule), settings)
        program = engine.program(spec, inputs)
        carry = program.empty(inputs, queue)
        if lanes == 1:
            larger, spec = spec, dataclasses.replace(spec, lanes=1)
            program = engine.program(spec, inputs)
            queue, carry = program.taken_over(inputs, queue, carry, larger)
        placed = program.place(inputs, queue, carry)
        return program.advance.jit.lower(*placed, np.int32(0)).compile().as_text()


def computations(text):
    """The computations of a compiled text by name, each a list of its lines."""
    found = {}
    for block in re.split(r"\n\n", text):
        head = re.match(r"(?:ENTRY )?%?([\w.-]+) \(", block.strip())
        if head:
            found[head[1]] = block.splitlines()
    return found


def reached(lines, found, kinds):
    """The names of computations that lines call by operations of some kinds, and theirs."""
    names, todo = set(), list(lines)
    while todo:
        line = todo.pop()
        if any(f" {kind}(" in line for kind in kinds):
            for name in re.findall(r"(?:body|condition|calls|to_apply)=%([\w.-]+)", line):
                if name not in names:
                    names.add(name)
                    todo += found[name]
    return names


@pytest.mark.slow
def test_nothing_for_the_solves_is_made_in_a_step():
    """The packed outer products of a solve [d(d+1)/2, K] are made where a lane asks.

    XLA computes what does not change in a loop before the loop's test.
    """
    found = computations(compiled_text(je.LazyTaS(), 16))
    entry = next(lines for lines in found.values() if lines[0].startswith("ENTRY"))
    loops = reached(entry, found, ("while", "call"))
    shape = re.compile(r"= f64\[(15,12|12,15)\]\S* (?!get-tuple-element|parameter)")
    assert len(loops) > 4
    assert not [line for name in loops for line in found[name] if shape.search(line)]
    assert any(shape.search(line) for lines in found.values() for line in lines)


@pytest.mark.parametrize(
    "rule, calls",
    [
        (je.LinGapE(), 1),
        pytest.param(je.LinGame(), 1, marks=pytest.mark.slow),
        pytest.param(je.FWS(), 1, marks=pytest.mark.slow),
        pytest.param(je.LazyTaS(), 3, marks=pytest.mark.slow),
    ],
    ids=repr,
)
def test_a_lane_alone_is_one_kernel(rule, calls):
    """The step's loop stands in a tagged call; two loops of LazyTaS's solve in others."""
    found = computations(compiled_text(rule, 1))
    # XLA tags its own small loops too, but lets them be inlined.
    tagged = [line for lines in found.values() for line in lines if 'inlineable="false"' in line]
    tagged = [line for line in tagged if " call(" in line]
    assert len(tagged) == calls
    assert all('xla_cpu_small_call="true"' in line for line in tagged)
    inside = reached(tagged, found, ("while", "call", "fusion"))
    assert any(" while(" in line for name in inside for line in found[name])


ROWS = (
    "lingape top-m pair times", "lingape form arms top-m at sampling", "lingape signs",
    "lingape form diagonal", "lingape a trajectory per delta", "lingape batch own arms",
    "lingape batch shared arms", "lingape resets full top-m", "lingape half-spaces",
    "lingame deltas on one trajectory", "lingame optimistic top-m at sampling",
    "lingame half-spaces at sampling", "lingame unstructured resets", "family poisson k-learner",
    "lazy-tas linear-d20", "lazy-tas unstructured signs at sampling",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", ROWS)
def test_jobs_of_the_digests_in_one_lane(name):
    """Rules, problems and families: every array of the result, entry by entry."""
    job = next(job for job in digests.JOBS if job.name == name)
    settings = {**job.settings}
    layout = settings.pop("engine")
    kept, moved = (
        je.simulate(job.instance, job.problem, job.rule, **settings,
                    engine=dataclasses.replace(layout, shrink=shrink))
        for shrink in (False, True)
    )  # fmt: skip
    for name in digests.ARRAYS:
        np.testing.assert_array_equal(getattr(kept, name), getattr(moved, name), err_msg=name)
    assert any(p.spec.rule == job.rule.static_part() for p in alone())


@pytest.mark.slow
@pytest.mark.parametrize(
    "instance, problem, rule",
    [
        (digests.D20, je.BestArm(), je.LinGapE()),
        (digests.scaled(digests.D10_TOP, 2.0), je.TopM(3), je.LinGapE()),
        (digests.D20, je.TopM(5), je.LinGapE()),
        (digests.D20_SIGNS, je.Thresholding(), je.LinGapE()),
        (digests.K40, je.BestArm(), je.LinGapE()),
        (digests.D20, je.BestArm(), je.LinGame()),
        (digests.D20, je.TopM(5), je.LinGame()),
    ],
    ids=repr,
)
def test_a_lane_alone_rounds_as_one_of_many(instance, problem, rule):
    """Every number of a lane's state after a chunk of 256 steps is the same, to the last bit.

    60 runs, each from its state after one chunk of 64 lanes.
    """
    layout = je.Engine(devices=1, lanes=64)
    settings = dict(
        delta=0.05, stopping=SELECTIVE, elimination=SELECTIVE, runs=60, seed=5,
        max_samples=40_000, engine=layout,
    )  # fmt: skip
    with scope.engine():
        spec, inputs, queue = planned((instance, problem, rule), settings)
        program = engine.program(spec, inputs)
        placed = program.begun(inputs, queue, program.empty(inputs, queue))
        first = jax.device_get(program.advance(*placed, np.int32(1)))
        wide = jax.device_get(program.advance(*program.place(inputs, queue, first), np.int32(1)))
        alone = engine.program(dataclasses.replace(spec, lanes=1), inputs)
        parked, empty = alone.taken_over(inputs, queue, first, spec)
        order = np.argsort(first.lane.done, kind="stable")
        assert parked.parked.count > 50
        for place in range(int(parked.parked.count)):
            few = dataclasses.replace(parked.parked, count=np.int32(place + 1))
            given = dataclasses.replace(parked, parked=few), dataclasses.replace(
                empty, next=np.int32(place)
            )
            one = alone.advance(*alone.place(inputs, *jax.tree.map(np.array, given)), np.int32(1))
            if bool(one.lane.done[0]):  # many lanes take idle steps after the end
                continue
            for x, y in zip(
                jax.tree.leaves(wide.lane), jax.tree.leaves(jax.device_get(one.lane)), strict=True
            ):
                if x.shape != y.shape:
                    np.testing.assert_array_equal(x[..., order[place]], y[..., 0])
