"""Runs one after the other in a single lane, in one kernel: the same runs as in many lanes."""

import dataclasses
import re
import time
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxelim as je
from jaxelim import engine, scope
from jaxelim.cache import Cache
from jaxelim.engine import one_lane
from jaxelim.engine.one_lane import Traced, as_one_kernel, at_run_time, blocking
from jaxelim.simulation import plan
from tests import jobs
from tests.calls import equal, planned
from tests.engine.test_invariance import COMMON, SELECTIVE, Hesitant

SMALL = je.Instance(np.random.default_rng(0).normal(size=(12, 5)), [1.0, 0.3, -0.2, 0.1, 0.0])
EASIER = je.Instance(SMALL.arms, 6 * SMALL.theta)
"""Its runs take 50 to 2700 samples."""


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class OfOneRun(Hesitant):
    """LinGapE with rare work, written for one run."""

    traits: ClassVar = dataclasses.replace(je.LinGapE.traits, lanes_last=False)


class Sorted(Hesitant):
    """Sorts, which needs a library."""

    def choose(self, view, state, rarely):
        arm, state = super().choose(view, state, rarely)
        return arm + 0 * jnp.argsort(view.means, axis=0)[0].astype(arm.dtype), state


def simulated(shrink, rule=None, instance=SMALL, **more):
    layout = je.Engine(shrink=shrink, **more.pop("layout", {"devices": 1}))
    settings = {**COMMON, "stopping": (je.LLR(), SELECTIVE), **more}
    return je.simulate(instance, je.BestArm(), rule or je.LinGapE(), engine=layout, **settings)


LAYOUT = {"devices": 1, "lanes": 32}


@pytest.fixture(scope="module")
def stayed():
    return simulated(False, layout=LAYOUT)


def alone():
    """The programs of one lane that have been compiled."""
    return {p for p in engine.program.values() if p.spec.execution.lanes == 1 and p.compiled}


def test_the_last_runs_move_to_one_lane(stayed, monkeypatch):
    """When the queue is empty. Its program is traced once; `shrink=False` does not ask for it."""
    before, asked, call = set(engine.program.values()), [], Cache.__call__
    moved = simulated(True, layout=LAYOUT)
    equal(stayed, moved)
    made = set(engine.program.values()) - before
    assert [(p.spec.execution.lanes, p.traces) for p in made] == [(1, 1)]
    assert moved.timings["samples_drawn"] == stayed.timings["samples_drawn"]
    assert moved.timings["samples_computed"] < stayed.timings["samples_computed"]

    def noted(self, *given):
        asked.append(call(self, *given))
        return asked[-1]

    monkeypatch.setattr(Cache, "__call__", noted)
    before = set(engine.program.values())
    equal(stayed, simulated(False, layout=LAYOUT))
    assert {one.spec.execution.lanes for one in asked if isinstance(one, engine.Program)} == {32}
    assert set(engine.program.values()) == before


@pytest.mark.slow
@pytest.mark.devices
def test_on_all_devices(stayed):
    layout = {"lanes": 16, "chunk": 16}
    kept, moved = (simulated(shrink, layout=layout) for shrink in (False, True))
    equal(stayed, kept)
    equal(stayed, moved)
    assert moved.timings["samples_drawn"] == kept.timings["samples_drawn"]
    assert moved.timings["samples_computed"] < kept.timings["samples_computed"]
    assert layout["chunk"] in {p.spec.execution.chunk for p in alone()}


GAUSSIAN = je.Instance.unstructured([1.0, 0.4, 0.0])


@pytest.mark.parametrize(
    "lanes, rule, layout, instance",
    [
        (1, Hesitant(), {}, EASIER),
        (16, je.LinGapE(), {}, EASIER),
        (16, je.LinGapE(), {"lanes": 7}, EASIER),
        (16, Hesitant(), {"shrink": False}, EASIER),
        (16, Hesitant(), {"shrink": True, "lanes": 16}, EASIER),
        (16, OfOneRun(), {}, EASIER),
        (16, Sorted(), {}, EASIER),
        (16, je.TrackAndStop(), {}, GAUSSIAN),
    ],
    ids=["rare work", "none", "lanes go in groups", "never", "lanes by hand", "under vmap",
         "a library's call", "an equation at every sample"],
)  # fmt: skip
def test_which_runs_are_taken_in_turn(lanes, rule, layout, instance, monkeypatch):
    """Those of a rule whose problem needs rare work, where steps may be one kernel."""
    given = instance, je.BestArm(), rule
    settings = dict(runs=40, engine=je.Engine(devices=1, **layout))
    assert planned(given, settings)[0].execution.lanes == lanes
    monkeypatch.setattr(one_lane, "WORKS", False)  # a JAX that was not tried
    assert planned(given, settings)[0].execution.lanes == 16


@pytest.mark.devices
@pytest.mark.slow
@pytest.mark.parametrize(
    "more",
    [
        {"instance": je.Instance(EASIER.arms, [EASIER.theta, EASIER.theta[::-1], EASIER.theta]),
         "runs": 33, "layout": {"devices": 2}},
        {"noise": np.random.default_rng(2).normal(size=(40, 3000)), "delta": [0.1, 0.01]},
    ],
    ids=["a batch in queues of two lengths", "given noise, a trajectory for each delta"],
)  # fmt: skip
def test_a_rule_with_rare_work_in_turn(more):
    """All runs of the queue, and they are those of the rule without rare work."""
    settings = {"instance": EASIER, "layout": {"devices": 1}, **more}
    one, many = simulated(None, Hesitant(), **settings), simulated(False, **settings)
    equal(one, many)
    assert (one.layout["lanes"], many.layout["lanes"]) == (1, 16)


def lowered(rule, lanes, chunk=None):
    """The lowered program of `lanes` lanes of a rule on `SMALL`."""
    settings = dict(stopping=SELECTIVE, elimination=SELECTIVE, runs=16,
                    engine=je.Engine(lanes=16, devices=1, chunk=chunk))  # fmt: skip
    spec, inputs, queue = planned((SMALL, je.BestArm(), rule), settings)
    with scope.engine():
        program = engine.program(spec if lanes > 1 else spec.executed(lanes=1), inputs)
        placed = program.place(inputs, queue, program.empty(inputs, queue))
        return program.advance.jit.lower(*placed, np.int32(0))


def computations(text):
    """The computations of a compiled text by name, each a list of its lines."""
    blocks = [block.strip() for block in text.split("\n\n")]
    heads = [re.match(r"(?:ENTRY )?%?([\w.-]+) \(", block) for block in blocks]
    return {head[1]: block.splitlines() for head, block in zip(heads, blocks, strict=True) if head}


def reached(lines, found, kinds):
    """The names of computations that lines call by operations of some kinds, and theirs."""
    names, todo = set(), list(lines)
    while todo:
        line = todo.pop()
        if any(f" {kind}(" in line for kind in kinds):
            several = "".join(re.findall(r"branch_computations=\{(.*?)\}", line)).split(", ")
            one = re.findall(r"(?:body|condition|calls|to_apply|\w+_computation)=%([\w.-]+)", line)
            for name in one + [name.strip("%") for name in several if name]:
                if name not in names:
                    names.add(name)
                    todo += found[name]
    return names


@pytest.mark.slow
def test_nothing_for_the_solves_is_made_in_a_step():
    """The packed outer products of a solve [d(d+1)/2, K] are made where a lane asks.

    XLA computes what does not change in a loop before the loop's test.
    """
    found = computations(lowered(je.LazyTaS(), 16).compile().as_text())
    entry = next(lines for lines in found.values() if lines[0].startswith("ENTRY"))
    loops = reached(entry, found, ("while", "call"))
    shape = re.compile(r"= f64\[(15,12|12,15)\]\S* (?!get-tuple-element|parameter)")
    assert len(loops) > 4
    assert not [line for name in loops for line in found[name] if shape.search(line)]
    assert any(shape.search(line) for lines in found.values() for line in lines)


@pytest.mark.parametrize(
    "rule", [je.LinGapE(), pytest.param(je.FWS(), marks=pytest.mark.slow)], ids=repr
)
def test_a_lane_alone_is_one_kernel(rule):
    """The step's loop stands in a tagged call, and XLA keeps it in a kernel.

    From jaxlib 0.12 on XLA tags most loops by itself: inside our calls, around them, or in the
    place of one that holds a loop only. FWS has the program of the test of its roundings.
    """
    program = lowered(rule, 1, chunk=4 if rule == je.FWS() else None)
    assert len(re.findall(r'call @.*xla_cpu_small_call = "true"', program.as_text())) == 1
    found = computations(program.compile().as_text())
    kernels = [x for lines in found.values() for x in lines if 'xla_cpu_small_call="true"' in x]
    inside = reached(kernels, found, ("while", "call", "fusion", "conditional"))
    loops = {
        name for name, lines in found.items()
        if any(" while(" in x and "jit(called)" in x for x in lines)
    }  # fmt: skip
    assert loops and loops <= inside


ROWS = (
    "lingape resets full top-m", "lingame half-spaces at sampling", "family exponential fws",
    "lazy-tas unstructured signs at sampling", "family bernoulli tas",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", ROWS)
def test_jobs_of_the_digests_in_one_lane(name, monkeypatch):
    """Rules, problems and families: every array of the result, entry by entry."""
    job = next(job for job in jobs.JOBS if job.name == name)
    settings = {**job.settings, "engine": je.Engine(devices=1, shrink=False)}
    many = je.simulate(job.instance, job.problem, job.rule, **settings)
    monkeypatch.setattr(plan, "settled", lambda _, spec, __: spec.executed(lanes=1))
    one = je.simulate(job.instance, job.problem, job.rule, **settings)
    equal(many, one)
    assert many.layout["lanes"] > one.layout["lanes"] == 1


def advanced(program, inputs, queue, carry, chunks=1):
    """A carry after more chunks."""
    placed = program.place(inputs, *jax.tree.map(np.array, (queue, carry)))
    return jax.device_get(program.advance(*placed, np.int32(chunks)))


def places(lane):
    """The run and t of each lane that is not done, and its place."""
    live = np.flatnonzero(~lane.done)
    return {(int(lane.run.item[b]), int(lane.stats.t[b])): b for b in live}


@pytest.mark.parametrize(
    "given, lanes, chunk, begun, chunks",
    [
        ((jobs.D20_SIGNS, je.Thresholding(), je.LinGapE()), 64, 256, 1, 1),
        pytest.param((jobs.D20, je.TopM(5), je.LinGame()), 64, 256, 1, 1, marks=pytest.mark.slow),
        pytest.param((SMALL, je.BestArm(), je.FWS()), 16, 4, 10, 40, marks=pytest.mark.slow),
    ],
    ids=["lingape", "lingame", "rare work"],
)  # fmt: skip
def test_a_lane_alone_rounds_as_one_of_many(given, lanes, chunk, begun, chunks):
    """Every number of a lane's state is the same to the last bit, where the run and t are.

    Of 60 runs after a chunk of 256 steps, each from its state after the first chunk. Of nine
    runs of FWS after each of 40 chunks of 4 steps; the first ten chunks end within a block of
    uniform steps, which ends by a new design.
    """
    settings = dict(
        delta=0.05, stopping=SELECTIVE, elimination=SELECTIVE, runs=min(lanes, 60), seed=5,
        max_samples=40_000, engine=je.Engine(devices=1, lanes=lanes, chunk=chunk),
    )  # fmt: skip
    spec, inputs, queue = planned(given, settings)
    with scope.engine():
        many, alone = (engine.program(x, inputs) for x in (spec, spec.executed(lanes=1)))
        carry = first = advanced(many, inputs, queue, many.empty(inputs, queue), begun)
        known, compared = {}, 0
        for _ in range(chunks):
            carry = advanced(many, inputs, queue, carry)
            known |= {at: (carry.lane, b) for at, b in places(carry.lane).items()}
        first = dataclasses.replace(first, next=queue.length)
        for n in range(min(len(places(first.lane)), max(9, 60 // chunks))):
            one = alone.alone(first, first.lane, n)
            for _ in range(chunks):
                one = advanced(alone, inputs, queue, one)
                for at in places(one.lane).keys() & known.keys():
                    compared += 1
                    lane, b = known[at]
                    for x, y in zip(jax.tree.leaves(lane), jax.tree.leaves(one.lane), strict=True):
                        if x.shape != y.shape:
                            np.testing.assert_array_equal(y[..., 0], x[..., b])
        assert compared > 50


# The tagged call, and what blocks it.

STEPS, SIZE = 10_000, 4
OPTIONS = {
    "xla_disable_hlo_passes": "small-while-loop-hoisting",
    "xla_backend_optimization_level": "3",
    "xla_llvm_disable_expensive_passes": False,
}
"""XLA makes a kernel of some loops by itself: of those up to 1 kB, from jaxlib 0.12 on of most."""


def looped(flag, matrix, x, kernel):
    """A loop of products, argmax and selects: some ten kernels a step."""

    def step(n, x):
        k = jnp.argmax(matrix @ x)
        y = matrix[k] - x * jnp.sum(x * x)
        y = y / (1 + jnp.sqrt(jnp.sum(y * y)))
        return jnp.where(y > x[jnp.argmin(matrix @ y)], y, -x)

    loop = lambda x: jax.lax.fori_loop(0, STEPS, step, x)  # noqa: E731
    return as_one_kernel(loop, flag, x) if kernel else loop(x)


def test_the_tag_makes_one_kernel():
    """The program calls one function, with the loop inside it; the numbers are the same.

    A loop of one kernel makes no calls, and takes less processor time: an update of JAX that
    ignores the tag would take as long with it. The best of seven calls each, by turns; a share
    below 0.8 by luck would need each of the seven untagged calls to take a quarter longer.
    """
    rng = np.random.default_rng(0)
    matrix = rng.normal(size=(SIZE, SIZE)).astype(np.float32)
    given = np.int32(1), matrix, rng.normal(size=SIZE).astype(np.float32)
    f = jax.jit(looped, static_argnums=3, compiler_options=OPTIONS)
    tagged, plain = both = [f.lower(*given, kernel).compile() for kernel in (True, False)]
    text = tagged.as_text()
    entry = text[text.index("ENTRY") :]
    assert len(re.findall(r"= .* call\(.*xla_cpu_small_call=\"true\"", entry)) == 1
    assert "while(" not in entry and "while(" in text
    assert "while(" in plain.as_text().partition("ENTRY")[2]
    np.testing.assert_allclose(tagged(*given), plain(*given), rtol=1e-4)
    best = [np.inf, np.inf]
    for _ in range(7):
        for n, compiled in enumerate(both):
            began = time.process_time()
            jax.block_until_ready(compiled(*given))
            best[n] = min(best[n], time.process_time() - began)
    assert best[0] < 0.8 * best[1], best


@pytest.mark.parametrize(
    "f, found",
    [
        (lambda x: jnp.sort(x), {"sort"}),
        (lambda x: x.at[jnp.argsort(x)].add(1.0), {"sort", "scatter-add"}),
        (lambda x: jnp.linalg.cholesky(jnp.outer(x, x)), {"cholesky"}),
        (lambda x: jnp.outer(x, x) @ jnp.outer(x, x), {"dot_general"}),
        (lambda x: jnp.sum(x[None] * np.ones((1366, 1))), {"reduce_sum"}),
        (lambda x: jnp.sum(x[None] > np.ones((1366, 1))), set()),
        (lambda x: jax.lax.cond(x[0] > 0, jnp.sort, lambda x: x, x), {"sort"}),
        (lambda x: jax.lax.while_loop(lambda x: x[0] < 9, lambda x: jnp.outer(x, x) @ x, x), set()),
    ],
    ids=["sort", "scatter", "library", "matrices", "long sum", "long count", "branch", "nothing"],
)
def test_what_blocks_a_kernel(f, found):
    x = jnp.ones(3)
    blocks = blocking(jax.make_jaxpr(f)(x).jaxpr)
    assert found <= blocks and bool(blocks) == bool(found)
    assert Traced(f, x).allowed == (not found)
    np.testing.assert_array_equal(Traced(f, x)(x), f(x))


def test_a_number_known_at_run_time_is_itself():
    for x in (jnp.int32(3), jnp.zeros((2, 2)), jnp.array([True, False])):
        found = jax.jit(at_run_time)(x, jnp.int32(1))
        np.testing.assert_array_equal(found, x)
        assert found.dtype == x.dtype
