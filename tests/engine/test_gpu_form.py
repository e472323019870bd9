"""The GPU's form of a program makes the same runs as a CPU's; both run on a CPU here."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxelim as je
from jaxelim import engine, matrices, scope
from jaxelim.engine.state import GRAPHS
from jaxelim.lanes import LaneOps
from jaxelim.simulation import plan
from jaxelim.simulation.plan import inputs_of, spec_of
from tests.calls import checked, equal, rows
from tests.contracts.test_products import LIBRARY, equations, program

GPU = LaneOps(gpu=True)
LINEAR = je.Instance(np.random.default_rng(5).normal(size=(8, 4)), [-0.4, 0.6, 0.8, 0.0])
RULES = {"lingape": je.LinGapE(), "lazy-tas": je.LazyTaS(), "xy-adaptive": je.XYAdaptive()}


def simulated(name):
    rule = RULES[name]
    own = rule.traits.stopping == ("native",)
    stopping = je.Native() if own else (je.LLR(), je.SelectiveElimination())
    layout = je.Engine(lanes=16, chunk=32, devices=1, shrink=False)
    return je.simulate(
        LINEAR, je.BestArm(), rule, delta=0.05, stopping=stopping, elimination=None,
        threshold=je.Heuristic(), runs=24, seed=3, max_samples=3000, ridge=1.0, engine=layout,
    )  # fmt: skip


@pytest.mark.parametrize("name", rows(RULES, {"lingape"}))
def test_the_runs_are_equal(name, monkeypatch):
    """Samples, answers and every arm's pulls of 24 runs, most of which stop."""
    expected = simulated(name)
    known = set(engine.program.values())
    monkeypatch.setattr(plan, "spec_of", functools.partial(spec_of, backend="gpu"))
    found = simulated(name)
    (made,) = set(engine.program.values()) - known
    assert made.spec.execution.gpu
    assert expected.stopped.mean() > 0.5
    equal(expected, found)


def test_no_program_calls_a_library_of_linear_algebra():
    """It would round otherwise on other processors; `test_products` has the GPU's programs."""
    calls = jnp.linalg.inv, jnp.linalg.eigh, jnp.linalg.svd, jnp.linalg.cholesky
    known = [jax.make_jaxpr(call)(jnp.eye(3)) for call in calls]
    of_library, ours = (
        LIBRARY & {one.primitive.name for one in equations(traced)}
        for traced in (known, program(je.LazyTaS(), backend="cpu", instance=LINEAR))
    )
    assert of_library >= {"lu", "eigh", "svd", "cholesky", "triangular_solve"} and not ours


def positive_definite(q, condition):
    """A symmetric matrix [q, q] with eigenvalues from 1 to the condition number."""
    basis = np.linalg.qr(np.random.default_rng(q).normal(size=(q, q)))[0]
    return basis * np.geomspace(1, condition, q) @ basis.T


@pytest.mark.parametrize("q", [7, pytest.param(33, marks=pytest.mark.slow)])
def test_inverses_and_factors(q):
    """Against NumPy, at a condition number of 1e6; 33 takes the form with a loop."""
    found = jax.jit(lambda a, b: (GPU.inverse(a), GPU.solver(a)(b), GPU.inverse_factor(a)))
    with scope.engine():
        a, b = positive_definite(q, 1e6), np.random.default_rng(0).normal(size=(q, 3))
        factor = np.linalg.inv(np.linalg.cholesky(a))
        expected = np.linalg.inv(a), np.linalg.solve(a, b), factor
        for x, y in zip(found(a, b), expected, strict=True):
            np.testing.assert_allclose(x, y, rtol=0, atol=1e-9)


def test_the_least_eigenpair():
    """Its value to rounding; its vector where the eigenvalue is alone, at any condition number."""
    found = jax.jit(matrices.least_eigenpair)
    with scope.engine():
        for condition in (1.0001, 10, 1e8):
            a = positive_definite(4, condition)
            (value, u), (known, vectors) = found(a), np.linalg.eigh(a)
            np.testing.assert_allclose(value, known[0], rtol=1e-15 * condition + 1e-14)
            np.testing.assert_allclose(abs(np.dot(u, vectors[:, 0])), 1, atol=1e-10)
        value, u = found(np.diag([3.0, 2.0, 2.0, 5.0]))
        assert value == 2 and abs(float(u[0])) < 1e-12 and float(np.dot(u, u)) == 1


def test_the_switch_is_the_platform():
    call = checked(LINEAR, je.BestArm(), je.LinGapE(), runs=20, engine=je.Engine(devices=1))
    with scope.engine():
        here, there = spec_of(call), spec_of(call, backend="gpu")
        assert there.execution.gpu and not here.execution.gpu
        assert here.family.keeps_products and not there.family.keeps_products
        lanes = there.execution.lane_ops(inputs_of(call, there).flag)
        assert lanes.gpu and lanes.flag is None and lanes.alone.gpu


def test_one_graph_where_xla_flags_do_not_say_otherwise(monkeypatch):
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    layout = engine.Execution(lanes=16, chunk=8, queue=64, devices=1, gpu=True)
    assert layout.compiler_options(None) is None  # a GPU's form on a CPU
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert layout.compiler_options(None) == GRAPHS
    monkeypatch.setenv("XLA_FLAGS", "--xla_gpu_enable_command_buffer=")
    assert list(layout.compiler_options(None)) == ["xla_gpu_graph_min_graph_size"]


def test_a_live_run_takes_a_cpu_where_there_is_a_gpu(monkeypatch):
    def run():
        made = je.LiveRun(["a", "b"], je.BestArm(), je.Uniform(), family=je.Bernoulli(),
                          threshold=je.Heuristic(), seed=1)  # fmt: skip
        made.tell(["a", "b"], [1, 0])
        return made

    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    with jax.default_device(jax.devices()[-1]):
        made = run()
        where = {leaf.device for leaf in jax.tree.leaves(made._state.lane)}
    assert not made._fold.spec.execution.gpu and where == {jax.devices("cpu")[0]}

    def none(backend):
        raise RuntimeError(f"unknown backend {backend}")

    monkeypatch.setattr(jax, "local_devices", none)
    with pytest.raises(je.errors.SetupError, match="no CPU device"):
        run()
