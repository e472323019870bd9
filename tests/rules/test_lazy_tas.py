"""Lazy Track-and-Stop: authors' traces, the twin, layouts, and the limit allocation."""

import dataclasses
import functools
import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxelim as je
from jaxelim.engine import cpu_options
from jaxelim.rules.parts.lazy_weights import averaged
from jaxelim.testing.settings import run_by_run
from tests import twin

DATA = Path(__file__).parents[1] / "data"
TRACES = [
    entry
    for entry in json.loads((DATA / "traces" / "index.json").read_text())
    if entry["rule"] == "lts"
]
SETTINGS = {
    "llr": (je.LLR(), None),
    "stop": (je.SelectiveElimination(), None),
    "both": (je.SelectiveElimination(), je.SelectiveElimination()),
}
PAIRS = {
    "linear-d10": ("linear-d10", je.BestArm(), ("bai",)),
    "linear-d10-topm": ("linear-d10-topm", je.TopM(3), ("topm", 3)),
    "unstructured-k40": ("unstructured-k40", je.BestArm(), ("bai",)),
    "unstructured-k40, top 3": ("unstructured-k40", je.TopM(3), ("topm", 3)),
    "unstructured-k40-osi": ("unstructured-k40-osi", je.Thresholding(), ("osi",)),
}


def never(t, delta):
    """A threshold that no run reaches."""
    return 1e9 + 0 * (t + delta)


@functools.cache
def noise():
    return np.load(DATA / "noise_seed124.npy")


def reproduce(entry, pulls):
    trace = np.load(DATA / "traces" / entry["file"])
    problem = {"bai": je.BestArm(), "topm": je.TopM(entry["m"] or 1), "osi": je.Thresholding()}[
        entry["problem"]
    ]
    stopping, elimination = SETTINGS[entry["variant"]]
    n = min(pulls, int(trace["samples"]))
    ours = je.trace(
        je.load_instance(entry["instance"]),
        problem,
        je.LazyTaS(),
        noise=noise(),
        stopping=stopping,
        elimination=elimination,
        max_samples=n + 1,
        ridge=1,
    )
    np.testing.assert_array_equal(ours.arms[:n], trace["arms"][:n])
    checks = n - len(ours.answer) + 1
    np.testing.assert_array_equal(ours.active[:checks], trace["active"][:checks])
    if n == int(trace["samples"]) and trace["stopped"]:
        assert ours.stopped and ours.samples == n
        answer = trace["answer"]
        if entry["problem"] == "osi":
            np.testing.assert_array_equal(ours.answer, answer.astype(bool))
        else:
            assert set(np.flatnonzero(ours.answer)) == set(np.atleast_1d(answer).tolist())


@pytest.mark.slow
@pytest.mark.parametrize("entry", TRACES, ids=lambda entry: entry["file"][:-4])
def test_every_trace_in_full(entry):
    reproduce(entry, 10**6)


@pytest.mark.shipped
def test_the_first_pulls_of_a_trace():
    (entry,) = (entry for entry in TRACES if entry["file"] == "linear-d20_bai_lts_both.npz")
    reproduce(entry, 4000)


def plainly(pair, pulls, rule="lazy_tas"):
    """The twin's trajectory."""
    name, _, spec = PAIRS[pair]
    instance = je.load_instance(name)
    return twin.run(
        instance.arms,
        instance.theta,
        spec,
        rule,
        noise=noise()[:pulls],
        beta=never,
        max_samples=pulls,
    )


def equal_pulls(pair, pulls):
    name, problem, _ = PAIRS[pair]
    ours = je.trace(
        je.load_instance(name),
        problem,
        je.LazyTaS(),
        noise=noise()[:pulls],
        threshold=never,
        max_samples=pulls,
        ridge=1,
    )
    np.testing.assert_array_equal(ours.arms[:pulls], plainly(pair, pulls).arms)


@pytest.mark.slow
@pytest.mark.parametrize("pair", ["linear-d10-topm", "unstructured-k40"])
def test_the_first_pulls_equal_the_twins(pair):
    equal_pulls(pair, 512)


@pytest.mark.slow
@pytest.mark.parametrize("pair", PAIRS)
def test_5000_pulls_equal_the_twins(pair):
    equal_pulls(pair, 5000)


@pytest.mark.parametrize("form", ["one run", "lanes", "vmapped"])
@pytest.mark.parametrize("design", ["square", "diagonal"])
def test_every_operation_of_the_average_is_rounded(form, design):
    """A fused multiply-add rounds once and gives other last digits."""
    K, B, steps = 40, 16, 300
    arms = np.random.default_rng(3).integers(K, size=(steps, B)).astype(np.int32)
    expected = np.full((B, K), 1 / K)
    for i, chosen in enumerate(arms, 1):
        expected = expected * (i / (i + 1)) + np.eye(K)[chosen] / (i + 1)

    def solve(arms, start):
        each = np.arange(K, dtype=np.int32).reshape((K,) + (1,) * (start.ndim - 1))

        def step(carry):
            i, w = carry
            return i + 1, averaged(w, each == arms[i - 1], i)

        return jax.lax.while_loop(lambda carry: carry[0] <= steps, step, (jnp.int32(1), start))[1]

    many = {"one run": solve, "lanes": solve, "vmapped": jax.vmap(solve, -1, -1)}[form]
    last = () if form == "one run" else (B,)
    with jax.enable_x64(True), jax.numpy_rank_promotion("allow"):
        given = arms[:, 0] if form == "one run" else arms, np.full((K, *last), 1 / K)
        found = (
            jax.jit(many)
            .lower(*given)
            .compile(cpu_options(None if design == "diagonal" else "1"))(*given)
        )
    expected = expected[0] if form == "one run" else expected.T
    np.testing.assert_array_equal(np.asarray(found), expected)


@pytest.mark.slow
@pytest.mark.parametrize("as_run", [lambda rule: rule, run_by_run], ids=["lanes", "by run"])
@pytest.mark.parametrize("pair", ["linear-d10", "unstructured-k40"])
def test_the_allocations_equal_the_twins_bit_by_bit(pair, as_run, monkeypatch):
    seen, solves, pulls = {}, [], 260

    def record(t, bits):  # callbacks have no 64-bit types, so floats come in two halves
        weights = np.ascontiguousarray(bits).view(np.float64)[..., 0]
        for time, w in zip(np.atleast_1d(t).tolist(), np.atleast_2d(weights.T), strict=True):
            seen[time] = w

    @jax.tree_util.register_static
    @dataclasses.dataclass(frozen=True)
    class Watched(je.LazyTaS):
        def choose(self, view, state):
            arm, state = super().choose(view, state)
            bits = jax.lax.bitcast_convert_type(state.weights, jnp.uint32)
            jax.debug.callback(record, view.t, bits)
            return arm, state

    class CrossCache(twin.LazyTas):
        def _improve(self, stats, labels):
            super()._improve(stats, labels)
            solves.append(self.w)

    monkeypatch.setitem(twin.RULES, "kept", CrossCache)
    plainly(pair, pulls, "kept")
    name, problem, _ = PAIRS[pair]
    je.simulate(
        je.load_instance(name),
        problem,
        as_run(Watched()),
        runs=1,
        noise=noise()[None, :pulls],
        threshold=never,
        max_samples=pulls,
        ridge=1,
    )
    jax.effects_barrier()
    for t, w in zip((64, 128, 256), solves, strict=True):
        np.testing.assert_array_equal(seen[t], w)


def batch(structure, count=3, K=5, d=3):
    rng = np.random.default_rng(5)
    arms = np.stack(
        [
            np.eye(K) if structure == "unstructured" else rng.standard_normal((K, d))
            for _ in range(count)
        ]
    )
    return je.Instance(arms, rng.standard_normal((count, arms.shape[2])))


@pytest.mark.slow_rows("BestArm()-('bai',)-linear-both")
@pytest.mark.parametrize(
    ("problem", "spec", "structure", "variant"),
    [
        (je.BestArm(), ("bai",), "linear", "both"),
        pytest.param(je.TopM(2), ("topm", 2), "linear", "both", marks=pytest.mark.slow),
        pytest.param(
            je.Thresholding(0.1), ("osi", 0.1), "unstructured", "llr", marks=pytest.mark.slow
        ),
    ],
    ids=lambda x: str(x),
)
def test_agrees_with_the_twin(problem, spec, structure, variant):
    instances, eps = batch(structure), np.random.default_rng(6).standard_normal((2, 600))
    stopping, elimination = SETTINGS[variant]
    ours = je.simulate(
        instances,
        problem,
        je.LazyTaS(),
        runs=2,
        noise=eps,
        stopping=stopping,
        elimination=elimination,
        ridge=1,
    )
    for i, one in enumerate(instances.unbatched):
        for run in range(2):
            theirs = twin.run(
                one.arms,
                one.theta,
                spec,
                "lazy_tas",
                noise=eps[run],
                stopping=("selective" if elimination else "llr",),
                elimination="selective" if elimination else None,
            )
            (end,) = theirs.stops.values()
            at = (i, 0, 0, run)
            assert ours.samples[at] == end.samples
            np.testing.assert_array_equal(ours.pulls[at], end.pulls)
            assert ours.tests_sampling[at] == end.tests_sampling


@pytest.mark.slow
def test_lanes_and_single_runs_agree():
    instance = batch("linear", K=6)[0]
    asked = dict(
        runs=8,
        seed=3,
        stopping=je.SelectiveElimination(),
        elimination=je.SelectiveElimination(),
        max_samples=500,
        ridge=1,
    )
    fast = je.simulate(instance, je.BestArm(), je.LazyTaS(), **asked)
    plain = je.simulate(instance, je.BestArm(), run_by_run(je.LazyTaS()), **asked)
    for name in ("samples", "pulls", "answer", "tests_sampling"):
        np.testing.assert_array_equal(getattr(fast, name), getattr(plain, name))


@pytest.mark.slow
def test_pulls_approach_the_optimal_allocation():
    instance = je.instances.two_dimensional(4, 0.4)
    result = je.simulate(
        instance, je.BestArm(), je.LazyTaS(), runs=2, threshold=never, max_samples=100_000, ridge=1
    )
    shares = result.pulls[0, 0] / 100_000
    assert np.abs(shares - np.array([0.5, 0.5, 0, 0])).sum(1).max() / 2 < 0.02


@pytest.mark.slow
def test_arms_that_do_not_span_are_not_explored_by_force():
    instance = je.Instance([[1.0, 0, 0], [1.0, 0.5, 0], [0.0, 1, 0]], [1.0, 0.4, 0])
    prepared = je.LazyTaS().prepare(instance, je.BestArm(), 1.0)
    np.testing.assert_array_equal(prepared.spanner, [0, 1, 0])
    assert prepared.c0 == 0
    flat = je.Instance(instance.arms[:, :2], instance.theta[:2])
    eps = np.random.default_rng(2).standard_normal((4, 200))
    ends = [
        je.simulate(one, je.BestArm(), je.LazyTaS(), runs=4, noise=eps, delta=0.001, ridge=1)
        for one in (instance, flat)
    ]
    assert ends[0].correct.all() and np.all(np.isfinite(ends[0].samples))
    # Only the flat instance explores, at the start: the runs are similar.
    assert 0.2 < ends[0].samples.mean() / ends[1].samples.mean() < 5
