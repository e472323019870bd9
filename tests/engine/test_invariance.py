"""Runs depend on instance, rule, settings and seed alone; programs compile once."""

import dataclasses

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import Literal

import jaxelim as je
from jaxelim import engine, scope
from jaxelim.engine.one_lane import operations
from tests.calls import equal, planned

SELECTIVE, FULL = je.SelectiveElimination(), je.FullElimination()
ALL = (je.LLR(), SELECTIVE, FULL)


def small(seed, *size):
    """Nine arms in four dimensions; of a batch [*size] each instance has its own."""
    rng = np.random.default_rng(seed)
    return je.Instance(rng.normal(size=(*size, 9, 4)), 0.5 * rng.normal(size=(*size, 4)))


INSTANCE = small(7)  # stops of the 40 runs below are from 100 to 2700 samples
COMMON = dict(delta=0.05, runs=40, seed=11, max_samples=3000)


def simulated(instance=INSTANCE, rule=None, **changes):
    return je.simulate(instance, je.BestArm(), rule or je.LinGapE(), **{**COMMON, **changes})


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class Hesitant(je.LinGapE):
    """LinGapE whose choice is rare work at times: the same choices."""

    def init(self, view):
        return jnp.zeros_like(view.t)

    def choose(self, view, state, rarely):
        go = (view.t % 7 == 0) | (view.t % 5 == 0)
        arm = super().choose(view, ())[0]
        return rarely(go, lambda: arm, jnp.where(go, 0, arm)), jnp.zeros_like(state)


@pytest.fixture(scope="module")
def observed():
    return simulated(stopping=ALL)


def test_layout_order_and_choice_of_runs_do_not_matter(observed):
    order, some = np.random.default_rng(0).permutation(40), np.array([31, 2, 17])
    for layout, runs in (({"lanes": 64, "chunk": 37}, 40), ({}, order), ({}, some)):
        found = simulated(stopping=ALL, runs=runs, engine=je.Engine(**layout))
        equal(found, observed, ..., np.s_[:, :, np.arange(40) if np.ndim(runs) == 0 else runs])


def test_means_and_noise_in_another_unit_give_the_same_runs(observed):
    instance = je.Instance(INSTANCE.arms, 4 * INSTANCE.theta, noise_std=4.0)
    equal(simulated(instance, stopping=ALL), observed)


@pytest.mark.slow
def test_rare_work_of_some_lanes_leaves_all_choices():
    settings = dict(stopping=SELECTIVE, elimination=SELECTIVE)
    rare = simulated(rule=Hesitant(), engine=je.Engine(lanes=24, chunk=64), **settings)
    equal(simulated(**settings), rare)


@pytest.mark.parametrize(
    "rule, shared",
    [(je.LinGapE(), False), pytest.param(je.LinGame(), True, marks=pytest.mark.slow)],
)
def test_deltas_on_one_trajectory_and_each_alone(rule, shared):
    """LinGame ignores delta: one trajectory serves all. LinGapE has one for each delta."""
    deltas = np.array([0.1, 0.001, 0.02])
    common = dict(rule=rule, runs=9, max_samples=1500, stopping=ALL)
    swept = simulated(delta=deltas, **common)
    assert swept.samples.shape == (3, 3, 9)
    assert (swept.layout["deltas_per_trajectory"] == 3) == shared
    for d, delta in enumerate(deltas):
        equal(swept, simulated(delta=delta, **common), np.s_[:, d], np.s_[:, 0])


def test_a_batch_of_instances_equals_single_instances():
    batch = small(3, 3)
    together = simulated(batch, stopping=ALL, runs=6)
    assert together.samples.shape == (3, 3, 1, 6)
    for i, one in enumerate(batch):
        equal(together, simulated(one, stopping=ALL, runs=6), i)


def test_permuted_arms_permute_the_result():
    """Without ties. The initial pulls are in index order: the noise is permuted too."""
    rng = np.random.default_rng(5)
    k, runs, length = INSTANCE.K, 8, 900
    order = rng.permutation(k)
    noise = rng.standard_normal((runs, length))
    permuted = noise.copy()
    permuted[:, :k] = noise[:, order]
    common = dict(stopping=SELECTIVE, delta=0.05, runs=runs)
    base = je.simulate(INSTANCE, je.BestArm(), je.LinGapE(), noise=noise, **common)
    moved = je.Instance(INSTANCE.arms[order], INSTANCE.theta)
    other = je.simulate(moved, je.BestArm(), je.LinGapE(), noise=permuted, **common)
    np.testing.assert_array_equal(other.samples, base.samples)
    equal(other, base, ..., np.s_[..., order], ("pulls", "answer", "elimination_times"))


def test_one_compile_per_configuration():
    """Delta, seed, number of runs, theta, features, cap and weights are traced.

    A threshold of one's own is traced by its check, and by the program.
    """
    engine.program.cache_clear()
    threshold = chex.assert_max_traces(lambda t, delta: jnp.log((1 + t) / delta), 2)
    for call in range(4):
        weights = np.roll(np.linspace(1, 2, 9), call) if call else np.ones(9)
        je.simulate(
            small(20 + call), je.BestArm(), je.Oracle(weights / weights.sum()), seed=call,
            delta=0.1 / (1 + call), runs=40 + call, max_samples=500 + call, stopping=SELECTIVE,
            threshold=threshold,
        )  # fmt: skip
    (program,) = engine.program.values()
    assert program.traces == 1


def larger_mean(theta):
    return jnp.argmax(theta)


def test_problems_of_one_shape_share_a_program():
    """The numbers of a user's problem are traced; its repr evaluates back to it."""
    engine.program.cache_clear()
    instance, results = je.Instance(np.eye(2), [1.0, 0.0]), []
    settings = dict(runs=20, max_samples=2000, stopping=SELECTIVE)
    for scale in (1.0, 3.0):
        y = scale * np.array([[[1.0, -1.0]], [[-1.0, 1.0]]])
        problem = je.HalfSpaces(larger_mean, y, [[0.1 * scale], [0.0]])
        names = {"HalfSpaces": je.HalfSpaces, "larger_mean": larger_mean}
        assert eval(repr(problem), names) == problem
        results.append(je.simulate(instance, problem, je.LinGapE(), **settings))
    # the same half-spaces at another scale
    np.testing.assert_array_equal(results[0].samples, results[1].samples)
    other = je.HalfSpaces(larger_mean, [[[1.0, -1.0]], [[-1.0, 1.0]]], [[0.5], [0.0]])
    harder = je.simulate(instance, other, je.LinGapE(), **settings)
    assert harder.samples.mean() > 1.5 * results[0].samples.mean()
    assert sum(p.traces for p in engine.program.values()) == 1


@pytest.mark.slow
def test_few_runs_take_few_lanes():
    """By default a lane takes about eight runs; runs do not depend on the lanes.

    Lanes are refilled from the queue: most computed samples are drawn by runs.
    """
    few = jax.default_backend() == "cpu"  # a GPU takes a lane per run
    easy, results = je.Instance(np.eye(4), [1.0, 0.0, 0.0, 0.0]), {}
    for runs, lanes, expected in (8, None, 16), (1000, None, 64 if few else 1024), (4000, 16, 16):
        results[runs] = je.simulate(
            easy, je.BestArm(), je.LinGapE(), runs=runs, max_samples=300,
            engine=je.Engine(lanes=lanes, devices=1, chunk=lanes and 8),
        )  # fmt: skip
        assert results[runs].layout["lanes"] == expected
        np.testing.assert_array_equal(results[runs].pulls[..., :8, :], results[8].pulls)
    drawn, computed = (results[4000].timings[f"samples_{x}"] for x in ("drawn", "computed"))
    assert drawn == (results[4000].samples - 4).sum() and drawn / computed > 0.75


@pytest.mark.slow
@pytest.mark.devices
def test_two_devices_and_one(observed):
    """Runs are dealt to all devices, and do not depend on their number."""
    for devices, used in ((None, len(jax.devices())), (1, 1)):
        layout = je.Engine(shrink=False, devices=devices)
        found = simulated(stopping=ALL, engine=layout)
        assert found.layout["devices"] == used and found.stopped.all()
        equal(found, observed)
    assert observed.samples.max() > 4 * observed.samples.min()


# Runs where choices tie, and divisions that XLA may round otherwise.

DEFAULT = je.Engine(devices=1, shrink=False)
LAYOUTS = (
    je.Engine(devices=1, shrink=True, chunk=16),
    je.Engine(devices=2, shrink=False, chunk=20, lanes=48),
)


def copied(rank, d, shift=0.0, scale=1.0):
    """Five random arms, and that of a rank in means again, `shift` apart; a scaled coordinate."""
    rng = np.random.default_rng((3, 0, 0))
    arms, theta = rng.normal(size=(5, d)), rng.normal(size=d)
    again = arms[[np.argsort(-(arms @ theta))[rank]]] + shift * rng.normal(size=(1, d))
    scale = np.array([scale, *np.ones(d - 1)])
    return je.Instance(np.concatenate([arms, again]) * scale, theta / scale)


RNG = np.random.default_rng(0)
CASES = {
    "as many arms as dimensions": (
        je.Instance(RNG.normal(size=(6, 6)), RNG.normal(size=6)), je.BestArm(), je.LinGapE()),
    "a copy": (copied(0, 5), je.TopM(2), je.FWS()),
    "near": (copied(2, 3, 1e-8), je.Thresholding(0.1), je.TrackAndStop(tracking="C", schedule=4)),
    "scaled": (copied(1, 3, scale=1e4), je.BestArm(), je.RAGE(steps=500)),
    "coins": (
        je.Instance.unstructured(RNG.uniform(0.05, 0.95, 6), je.Bernoulli()),
        je.Thresholding(0.1), je.FWS()),
}  # fmt: skip


def numbers(instance, problem, rule, layout, **settings) -> np.ndarray:
    """Samples, pulls and answers of each run: [run, numbers]."""
    native = rule.traits.stopping == ("native",)
    usual = dict(delta=0.1, runs=16, max_samples=300, seed=5,
                 stopping=je.Native() if native else je.LLR())  # fmt: skip
    found = je.simulate(instance, problem, rule, engine=layout, progress=False, **usual | settings)
    return np.concatenate([found.samples[0, 0, :, None], found.pulls[0, 0], found.answer[0, 0]], 1)


def divisions(rule):
    """The divisions by an array with fewer entries, in the program of a call."""
    settings = dict(stopping=je.Native(), runs=16, max_samples=300)
    spec, *host = planned((copied(1, 3), je.BestArm(), rule), settings)
    with scope.engine():
        program = engine.program(spec, host[0])
        given = *host, program.empty(*host), np.int32(1)
        equations = list(operations(jax.make_jaxpr(program.loop.advance)(*given).jaxpr))
    made = {v: e for e in equations for v in e.outvars}

    def size(v):
        """The number of entries, before it was broadcast."""
        while v in made and made[v].primitive.name in ("broadcast_in_dim", "reshape"):
            v = made[v].invars[0]
            if isinstance(v, Literal):
                return 1
        return v.aval.size

    divided = [(e.invars[1], e.outvars[0].aval) for e in equations if e.primitive.name == "div"]
    return [
        by for by, out in divided if jnp.issubdtype(out.dtype, jnp.floating)
        and not isinstance(by, Literal) and size(by) < out.size
    ]  # fmt: skip


@pytest.mark.parametrize("rule", [je.RAGE(), je.XYAdaptive()], ids=["RAGE", "XYAdaptive"])
def test_designs_do_not_divide_by_what_is_shared(rule):
    """XLA may or may not take such a division as a product with the inverse."""
    assert not divisions(rule)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_no_layout_changes_a_run(case):
    """All runs of RAGE changed on two devices while Frank-Wolfe divided by n + 2."""
    instance, problem, rule = CASES[case]
    known, *others = (
        numbers(instance, problem, rule, layout) for layout in (DEFAULT, *LAYOUTS)
    )
    for other in others:
        np.testing.assert_array_equal(other, known)
