"""Sizes beyond a type or the memory: a wider type is taken, or the call is refused."""

import dataclasses
import tracemalloc

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxelim as je
from jaxelim import engine, scope
from jaxelim.families import linear_statistics as gaussian
from jaxelim.lanes import LaneOps, places_type
from jaxelim.simulation import memory, plan
from tests.calls import checked

# Integers


@dataclasses.dataclass(frozen=True)
class Last(je.SamplingRule):
    """Pulls the last arm."""

    traits = je.Traits(uses_delta=False, uses_rewards=False, lanes_last=True)

    def choose(self, view, state):
        return jnp.full_like(view.t, view.means.shape[0] - 1), state


def easy_for_one_delta(t, delta):
    return jnp.where(delta > 0.1, 5.0, 1e9) + 0 * t


@pytest.mark.parametrize("arms", [40, 2**15 + 100])
def test_pulls_at_every_stop_sum_to_samples(arms):
    """Of two observers one stops at once and one never.

    The pulls in between are of an arm beyond int16.
    """
    features = np.tile([[0.0, 1e-3]], (arms, 1)) * (1 + np.arange(arms)[:, None])
    features[0] = [1.0, 0.0]
    settings = dict(delta=[0.5, 1e-9], runs=2, ridge=1, max_samples=arms + 40)
    result = je.simulate(
        je.Instance(features, [100.0, 0.0]),
        je.BestArm(),
        Last(),
        threshold=easy_for_one_delta,
        engine=je.Engine(devices=1, chunk=64),
        **settings,
    )
    assert (result.samples[0, 0] < arms + 5).all() and (result.samples[0, 1] == arms + 40).all()
    np.testing.assert_array_equal(result.pulls.sum(-1), result.samples)


def gathered(f, *shapes):
    """The type of the indices that f gathers with, for these shapes and types."""
    given = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in shapes]
    with scope.engine():
        equations = jax.make_jaxpr(f)(*given).jaxpr.eqns
    found = [e.invars[1].aval.dtype for e in equations if e.primitive.name == "gather"]
    assert len(found) == 1
    return found[0]


@pytest.mark.parametrize("b, dtype", [(8191, jnp.int32), (8192, jnp.int64)])
def test_places_beyond_32_bits(b, dtype):
    """[512, 512, 8192] has 2^31 entries: one more than int32 can count."""
    lanes, i, pairs = LaneOps(None), ((b,), jnp.int32), ((512, 512, b), jnp.bool_)
    assert gathered(lanes.row, pairs, i) == dtype
    assert gathered(lanes.column, pairs, i) == dtype
    assert gathered(lanes.take, ((512 * 512, b), jnp.bool_), i) == dtype
    assert gathered(lanes.row, ((512 * b, 512), jnp.bool_), ((16,), jnp.int32)) == dtype
    assert places_type(2**31 - 1) is np.int32 and places_type(2**31) is np.int64


@pytest.mark.slow
def test_rows_beyond_32_bits():
    """The last entries of a 4.3 GB array, beyond the places of int32."""
    n, q, b = 3, 2**14, 2**16 + 16
    assert n * q * b > 2**31
    with scope.engine():
        x = jnp.zeros((n, q, b), jnp.int8).at[2, :, -3:].set(7)
        i = jnp.full((b,), 2, jnp.int32)
        row = jax.jit(LaneOps(None).row)(x, i)
        assert (row[:, -3:] == 7).all() and int(jnp.sum(row, dtype=jnp.int64)) == 7 * 3 * q


def test_counts_beyond_float32():
    one = je.Instance(np.eye(3), [1.0, 0.5, 0.0])
    single = je.Engine(precision="float32")
    for call, more in ((je.simulate, {"runs": 2}), (je.trace, {})):
        with pytest.raises(je.ArgumentError) as caught:
            call(
                one,
                je.BestArm(),
                je.Uniform(),
                max_samples=2**24 + 1,
                ridge=1,
                engine=single,
                **more,
            )
        assert str(caught.value) == (
            "max_samples: got 16777217 (float32 counts one by one up to 2^24); "
            "allowed: an integer from 3 to 16777216 with precision='float32'"
        )
    # these pass, and the next wrong argument is refused
    for layout, most in ((single, 2**24), (je.Engine(), 2**30)):
        with pytest.raises(je.ArgumentError, match="elimination: got"):
            je.simulate(
                one,
                je.BestArm(),
                je.Uniform(),
                max_samples=most,
                elimination="none",
                ridge=1,
                engine=layout,
            )


# Arms that nearly coincide


def may_cancel(instance, ridge, max_samples):
    """The definition, with all pairs at once."""
    for features in np.reshape(instance.arms, (-1, instance.K, instance.d)):
        gram = features @ features.T
        norms = np.diag(gram)
        squares = norms[:, None] + norms[None] - 2 * gram
        for i, j in zip(*np.nonzero(squares <= 1e-6 * (norms[:, None] + norms[None])), strict=True):
            squares[i, j] = np.sum((features[i] - features[j]) ** 2)
        apart = np.any(features[:, None] != features[None], 2)
        eigenvalues = np.linalg.eigvalsh(features.T @ features + ridge * np.eye(instance.d))
        condition = (ridge + max_samples * norms.max()) / max(eigenvalues[0], 1e-300)
        if np.any(squares[apart] < 1e-10 * np.sqrt(condition) * 2 * norms.max()):
            return True
    return False


def test_near_arms_are_found_in_blocks(monkeypatch):
    """Any block size gives the definition's result.

    Cases: all distances between arms, identical arms, batches, zero arms.
    """
    rng, found = np.random.default_rng(0), []
    for block in (1, 50, gaussian.BLOCK):
        monkeypatch.setattr(gaussian, "BLOCK", block)
        for case in range(200):
            k, d = rng.integers(2, 12), rng.integers(1, 5)
            arms = rng.normal(size=(rng.integers(1, 3), k, d)) * 10.0 ** rng.integers(-2, 3)
            if case % 2:
                arms[:, -1] = arms[:, 0]
            if case % 5 == 0:
                arms[:, k // 2] = 0
            if case % 3:
                arms[0, 1] = arms[0, 0] + 10.0 ** rng.uniform(-9, 0) * rng.normal(size=d)
            instance = je.Instance(arms, np.ones((len(arms), d)))
            ridge, cap = 10.0 ** rng.uniform(-3, 3), 10 ** int(rng.integers(2, 5))
            found.append(gaussian.may_cancel(instance, ridge, cap))
            assert found[-1] == may_cancel(instance, ridge, cap), (case, block)
    assert 100 < sum(found) < 500


def test_near_arms_take_little_memory():
    rng = np.random.default_rng(1)
    instance = je.Instance(rng.normal(size=(8000, 2)), [1.0, 0.0])
    tracemalloc.start()
    try:
        assert not gaussian.may_cancel(instance, 1.0, 100)
        assert tracemalloc.get_traced_memory()[1] < 30e6  # a K x K matrix is 512 MB
    finally:
        tracemalloc.stop()


# Memory


THREE = je.Instance(np.eye(3), [1.0, 0.5, 0.0])


@pytest.fixture
def four_gigabytes(monkeypatch):
    """Free memory of 4 GB, and a check that nothing compiles."""
    monkeypatch.setattr(memory, "available", lambda: 4 * 10**9)
    before = engine.program.cache_info()
    yield
    assert engine.program.cache_info() == before


def too_large(call=je.simulate, instance=THREE, problem=je.BestArm(), **settings):  # noqa: B008
    settings = {"ridge": 1, "max_samples": 1000, **settings}
    tracemalloc.start()
    try:
        with pytest.raises(je.MemoryLimitError) as caught:
            call(instance, problem, je.LinGapE(), **settings)
        assert tracemalloc.get_traced_memory()[1] < 100e6
    finally:
        tracemalloc.stop()
    error = caught.value
    assert error.free == 4 * 10**9 < error.needed
    assert str(error).startswith(f"{error.argument}: got ") and error.note.startswith(
        "the call would hold "
    )
    assert str(error).endswith("; allowed: what fits into the 4.0 GB of memory that are free")
    return error


LARGE = {
    "runs": ("runs", 2**31, dict(runs=2**31)),
    "runs of a batch": (
        "runs",
        10**7,
        dict(runs=10**7, instance=je.Instance(np.eye(40), np.linspace(1, 0, 80).reshape(2, 40))),
    ),
    "runs of many deltas": ("runs", 10**6, dict(runs=10**6, delta=np.linspace(0.01, 0.1, 100))),
    "chunk": ("chunk", 10**9, dict(runs=2, engine=je.Engine(chunk=10**9))),
    "chunk of few lanes": ("chunk", 10**8, dict(runs=2, engine=je.Engine(chunk=10**8, lanes=16))),
    "lanes": ("lanes", 2**20, dict(runs=2**20, engine=je.Engine(lanes=2**20))),
    "log": ("max_samples", 2**30, dict(call=je.trace, max_samples=2**30)),
}


@pytest.mark.parametrize("name", LARGE)
def test_what_does_not_fit_is_refused(name, four_gigabytes):
    argument, given, settings = LARGE[name]
    error = too_large(**settings)
    assert (error.argument, error.given) == (argument, given)


def test_the_state_of_a_lane_is_counted(four_gigabytes):
    """Top m with resets keeps K x K bits twice in a lane's state: 0.5 MB a lane."""
    wide = je.Instance(np.eye(512), np.linspace(1, 0, 512))
    resets = je.Resets(je.FullElimination())
    settings = dict(problem=je.TopM(5), stopping=je.LLR(), elimination=resets, runs=2**14)
    error = too_large(instance=wide, engine=je.Engine(lanes=2**14), **settings)
    assert (error.argument, error.given) == (
        "lanes",
        2**14,
    ) and "the state of its lanes" in error.note


def test_the_evidence_of_pairs_is_counted(monkeypatch):
    """[K, K] numbers a run, whatever the runs keep besides."""
    monkeypatch.setattr(memory, "available", lambda: 10**9)
    for problem, entries in ((je.BestArm(), 200**2), (je.Thresholding(0.2), 400)):
        wide = je.Instance.unstructured(np.linspace(1, 0, 200))
        stopping = je.LLR(), je.SelectiveElimination()
        call = checked(
            wide, problem, je.Uniform(), stopping=stopping, runs=2000, record=("p_values",),
            engine=je.Engine(lanes=256, devices=1),
        )  # fmt: skip
        with scope.engine():
            spec = plan.spec_of(call)
            inputs = plan.inputs_of(call, spec)
            outline = engine.outline(spec, inputs)
            (found,) = (part for part in plan._needs(call, spec) if part.argument == "record")
            assert found in plan._needs(call, spec, inputs, outline)
        assert found.host == 2 * 2000 * 2 * 8 * entries
        lane, outcome, *_ = outline
        kept = 8 * (lane.log_e.size + lane.log_e_at.size)
        layout = spec.execution
        kept += 8 * outcome.log_e.size // layout.lanes * (layout.queue + layout.lanes)
        assert kept < found.device < 1.01 * kept
    with pytest.raises(je.MemoryLimitError, match="record: got .* for the evidence of every pair"):
        je.simulate(wide, je.BestArm(), je.Uniform(), runs=10_000, record=("p_values",))


def test_means_are_counted():
    """8 K bytes for each end of a run; as much again where the variance is unknown."""
    for family, arrays in ((je.Gaussian(), 1), (je.GaussianUnknownVariance(), 2)):
        wide = je.Instance.unstructured(np.linspace(1, 0, 200), family)

        def needed(record, wide=wide):
            call = checked(wide, je.BestArm(), je.Uniform(), runs=2000, record=record,
                           stopping=(je.LLR(), je.SelectiveElimination()))  # fmt: skip
            with scope.engine():
                spec = plan.spec_of(call)
                inputs = plan.inputs_of(call, spec)
                outline = engine.outline(spec, inputs)
                known = [plan._needs(call, spec), plan._needs(call, spec, inputs, outline)]
            return [next(part.host for part in parts if part.argument == "runs") for parts in known]

        rough, whole = np.subtract(needed(("means",)), needed(()))
        assert [rough, whole] == [size * 2 * 2000 * 2 * 8 * 200 for size in (1, arrays)]


def test_an_instance_too_large_for_its_lanes(monkeypatch):
    monkeypatch.setattr(memory, "available", lambda: 300 * 10**6)
    wide = je.Instance(np.random.default_rng(0).normal(size=(2000, 2)), [1.0, 0.0])
    with pytest.raises(je.MemoryLimitError, match="instance: got .* for the state of its lanes"):
        je.simulate(
            wide,
            je.TopM(2),
            je.LinGapE(),
            runs=1000,
            elimination=je.Resets(je.FullElimination()),
            ridge=1,
        )


def test_what_fits_is_not_refused(four_gigabytes, monkeypatch):
    """A later argument is refused; if free memory is unknown, every size passes."""
    for free in (4 * 10**9, None):
        monkeypatch.setattr(memory, "available", lambda free=free: free)
        with pytest.raises(je.ArgumentError, match="elimination: got"):
            je.simulate(THREE, je.BestArm(), je.LinGapE(), runs=10**6, elimination=1, ridge=1)
    with pytest.raises(je.ArgumentError, match="runs: got .* an integer n >= 1"):
        je.simulate(THREE, je.BestArm(), je.LinGapE(), runs=2**31 + 1, ridge=1)


D20 = je.load_instance("linear-d20"), je.BestArm(), je.LinGapE()
ESTIMATED = {
    "linear": (*D20, dict(runs=20_000, ridge=1)),
    "delays": (THREE, je.BestArm(), je.Uniform(), dict(runs=5000, max_samples=900, delay=500)),
    "several deltas": (*D20, dict(runs=5000, ridge=1, delta=[0.1, 0.01, 0.001],
                                  stopping=(je.LLR(), je.SelectiveElimination()))),
    "few runs": (*D20, dict(runs=256, ridge=1)),
    "mixture": (je.Instance.unstructured([0.6, 0.5, 0.4], je.Bernoulli()), je.BestArm(),
                je.LUCB(), dict(runs=20_000, threshold=je.Mixture())),
    "fws": (*D20[:2], je.FWS(), dict(runs=5000, ridge=1)),
    "tas": (je.Instance.unstructured(np.linspace(1, 0, 20)), je.BestArm(), je.TrackAndStop(),
            dict(runs=5000)),
    "top m": (je.Instance.unstructured(np.linspace(1, 0, 40)), je.TopM(5), je.LinGapE(),
              dict(runs=5000)),
}  # fmt: skip


@pytest.mark.parametrize("name", [
    pytest.param(name, marks=() if name in ("linear", "delays") else pytest.mark.slow)
    for name in ESTIMATED
])  # fmt: skip
def test_an_estimate_is_near_the_truth(name):
    """XLA's figures: arguments, results and temporary arrays of the program. To 0.9 to 1.02."""
    *given, settings = ESTIMATED[name]
    settings = dict(max_samples=100, engine=je.Engine(lanes=256, devices=1)) | settings
    call = checked(*given, **settings)
    with scope.engine():
        found = plan.planned(call)
        spec, inputs, queue = found.spec, found.inputs, found.queue
        parts = plan._needs(call, spec, inputs, engine.outline(spec, inputs))
        rough = plan._needs(call, spec)
        program = engine.program(spec, inputs)
        placed = program.place(inputs, queue, program.empty(inputs, queue))
        told = program.advance.jit.lower(*placed, np.int32(0)).compile().memory_analysis()
    truth = told.argument_size_in_bytes + told.temp_size_in_bytes
    whole, first = (sum(part.device for part in each) for each in (parts, rough))
    assert 0.9 * truth < whole < 1.02 * truth and first < 1.02 * truth
    if name == "linear":
        row = sum(x.nbytes // len(x) for x in jax.tree.leaves(placed[2].out))
        assert first < whole and memory.of_a_run(50, 50, 1) <= row


def files(root, contents):
    for name, text in contents.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


MEMINFO = {
    "proc/meminfo": "MemTotal:       24000000 kB\nMemAvailable:   20000000 kB\nCached: 5 kB\n"
}
V2 = {
    **MEMINFO, "proc/self/cgroup": "0::/a/b\n",
    "sys/fs/cgroup/a/memory.max": "9000000000\n", "sys/fs/cgroup/a/memory.current": "5000000000\n",
    "sys/fs/cgroup/a/memory.stat": "anon 1\ninactive_file 1000000000\n",
    "sys/fs/cgroup/a/b/memory.max": "max\n", "sys/fs/cgroup/a/b/memory.current": "100\n",
}  # fmt: skip
V1 = {
    **MEMINFO,
    "proc/self/cgroup": "9:name=systemd:/x\n4:memory,hugetlb:/job\n0::/\n",
    "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
    "sys/fs/cgroup/memory/memory.usage_in_bytes": "7\n",
    "sys/fs/cgroup/memory/job/memory.limit_in_bytes": "3000000000\n",
    "sys/fs/cgroup/memory/job/memory.usage_in_bytes": "1500000000\n",
    "sys/fs/cgroup/memory/job/memory.stat": "inactive_file 5\ntotal_inactive_file 250000000\n",
}


def test_available_memory(tmp_path):
    assert memory.available(files(tmp_path / "none", MEMINFO)) == 20_480_000_000
    assert memory.available(files(tmp_path / "v2", V2)) == 5_000_000_000
    assert memory.available(files(tmp_path / "v1", V1)) == 1_750_000_000
    used = {**V1, "sys/fs/cgroup/memory/job/memory.usage_in_bytes": "3500000000\n"}
    assert memory.available(files(tmp_path / "full", used)) == 0
    here = memory.available()
    assert here is None or 0 <= here < 2**50


@dataclasses.dataclass(frozen=True)
class Device:
    """The attributes of a JAX device that the check reads."""

    free: int | None
    platform: str = "gpu"

    def memory_stats(self):
        return (
            None if self.free is None else {"bytes_limit": self.free + 10**9, "bytes_in_use": 10**9}
        )


def test_a_devices_own_memory(monkeypatch):
    monkeypatch.setattr(memory, "available", lambda: 10 * 10**9)
    parts = [
        memory.Part("runs", 5, "results", 2 * 10**9, 4 * 10**9),
        memory.Part("lanes", 7, "lanes", 0, 8 * 10**9),
    ]
    memory.check(parts, [Device(7 * 10**9), Device(6 * 10**9)])  # 6 GB on each
    memory.check(parts, [Device(None), Device(None)])
    with pytest.raises(je.MemoryLimitError) as caught:
        memory.check(parts, [Device(7 * 10**9), Device(5 * 10**9)])
    error = caught.value
    assert (error.argument, error.given, error.needed, error.free) == (
        "lanes",
        7,
        6 * 10**9,
        5 * 10**9,
    )
    assert str(error) == (
        "lanes: got 7 (the call would hold 6.0 GB, 4.0 GB of it for lanes); "
        "allowed: what fits into the 5.0 GB of memory that are free"
    )
    with pytest.raises(je.MemoryLimitError):  # 14 GB of host memory
        memory.check(parts, [Device(None, "cpu")])
