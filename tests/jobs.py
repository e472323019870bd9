"""The jobs of `tests.digests`: small calls of every kind.

They use nothing but `import jaxelim as je`. They pass every argument that has a default and
could decide a number, the ridge above all.
"""

import dataclasses
import math
from collections.abc import Callable

import jax.numpy as jnp
import numpy as np

import jaxelim as je

ARRAYS = ("samples", "stopped", "answer", "correct", "pulls", "elimination_times", "tests_stopping",
          "tests_sampling")  # fmt: skip
TRACED = ("arms", "active", "samples", "stopped", "answer", "pulls", "elimination_times", "rewards",
          "theta_hat_0")  # fmt: skip

# Building blocks of the jobs.

SELECTIVE, FULL = je.SelectiveElimination(), je.FullElimination()
LLR, NATIVE = je.LLR(), je.Native()
TWO, ALL = (LLR, SELECTIVE), (LLR, SELECTIVE, FULL)
SAMPLED = dict(stopping=SELECTIVE, elimination=SELECTIVE)
ONE = je.Engine(devices=1, shrink=False)


def scaled(instance: je.Instance, factor: float) -> je.Instance:
    """The same arms, theta times `factor`: 1/factor^2 as many samples."""
    return je.Instance(instance.arms, factor * instance.theta)


COINS = je.Instance.unstructured([0.8, 0.5, 0.4, 0.1], je.Bernoulli())
COUNTS = je.Instance.unstructured([4.0, 2.5, 1.0], je.Poisson())
TIMES = je.Instance.unstructured([3.0, 1.0, 0.5], je.Exponential())


def log_threshold(t, delta):
    """A user-defined threshold."""
    return jnp.log((1 + t) / delta)


def half_spaces_of_best_arm(arms: np.ndarray) -> je.HalfSpaces:
    """The best arm up to a slack per rival."""
    directions = arms[:, None] - arms[None]  # zeros, so no piece, for the arm itself
    offsets = np.broadcast_to(-0.02 * np.arange(1, len(arms) + 1), directions.shape[:2])
    best = lambda theta: jnp.argmax(jnp.asarray(arms) @ theta)  # noqa: E731
    return je.HalfSpaces(best, directions, offsets)


def quadrants(d: int, levels: tuple[float, float]) -> je.HalfSpaces:
    """The signs of theta's first two coordinates, against levels: four answers."""
    signs = np.array([[-1.0, -1.0], [1.0, -1.0], [-1.0, 1.0], [1.0, 1.0]])
    directions = signs[:, :, None] * np.eye(2, d)
    offsets = signs * np.array(levels)

    def answer(theta):
        first, second = ((theta[i] > levels[i]).astype(jnp.int32) for i in range(2))
        return first + 2 * second

    return je.HalfSpaces(answer, directions, offsets)


D10, D10_TOP = je.load_instance("linear-d10"), je.load_instance("linear-d10-topm")
D20, D20_SIGNS = je.load_instance("linear-d20"), je.load_instance("linear-d20-osi")
K40, K40_SIGNS = je.load_instance("unstructured-k40"), je.load_instance("unstructured-k40-osi")
ARMS = np.random.default_rng(0).normal(size=(6, 3))
SMALL = je.Instance(ARMS, [1.5, -1.2, 0.9])
THREE = je.Instance(ARMS, 0.8 * np.random.default_rng(1).normal(size=(3, 3)))  # shared arms
OWN = scaled(je.instances.linear_d20(3, n=3, K=24), 4.0)  # arms per instance
MIDDLE = scaled(je.instances.linear_d20(7, K=24), 4.0)


@dataclasses.dataclass(frozen=True)
class LogLog:
    """log x + log log x, x = 3 t^2/delta, with the constants of the theory."""

    def __call__(self, t, delta):
        log_x = jnp.log(3.0 * t**2) - jnp.log(delta)
        return log_x + 1.0 * jnp.log(log_x)

    def constants(self, delta):
        return 2.0, 4.0, math.e**2 / 3.0


EIGHT = je.Instance(np.eye(8), [2.0, 1.1, 0.6, 0.1, 0.0, -0.4, -0.6, -1.2])
SCALED = je.Instance(np.eye(6), [3.0, 2.0, 0.5, 0.0, -1.0, -2.0], noise_std=2.5)
# Two arms, the best and a low one, have near-duplicates 1e-8 away.
NEAR = je.Instance(np.concatenate([ARMS, ARMS[[1, 3]] - 1e-8 * SMALL.theta]), SMALL.theta)
FOUR = je.Instance(np.eye(4), [[1.0, 0.2, 0.0, 0.4], [0.0, 0.1, 0.9, 0.3]])
NOISE = np.random.default_rng(2).standard_normal((12, 160))


@dataclasses.dataclass(frozen=True)
class Job:
    """A named call; `call` returns arrays by name, and readable numbers."""

    name: str
    instance: je.Instance
    problem: je.contracts.Problem
    rule: je.contracts.SamplingRule | None
    settings: dict
    call: Callable[["Job"], tuple[dict, dict]]


def simulated(job: Job) -> tuple[dict, dict]:
    """The arrays of a `Result`, the axis of runs first."""
    result = je.simulate(job.instance, job.problem, job.rule, **job.settings)
    axis = result.samples.ndim - 1
    found = {name: getattr(result, name) for name in ARRAYS}
    arrays = {name: None if x is None else np.moveaxis(x, axis, 0) for name, x in found.items()}
    across = (0, axis) if job.instance.batched else axis
    numbers = {
        "mean samples": np.mean(result.samples, across).round(2).tolist(),
        "stopped": float(result.stopped.mean().round(4)),
        "wrong": float((~result.correct).mean().round(4)),
        "plan": result.layout,
    }
    return arrays, numbers


def traced(job: Job) -> tuple[dict, dict]:
    found = je.trace(job.instance, job.problem, job.rule, **job.settings)
    return as_one({name: getattr(found, name) for name in TRACED}), {"mean samples": found.samples}


def solved(job: Job) -> tuple[dict, dict]:
    """H*, w* and derived arrays; `settings` are those of `complexity`."""
    found = je.complexity(job.instance, job.problem, **job.settings)
    weights = np.full(job.instance.K, 1 / job.instance.K)
    arrays = {
        "value": found.value,
        "allocation": found.allocation,
        "uniform": je.bounds.information(job.instance, job.problem, weights),
        "sample_bound": je.bounds.sample_bound(0.01, found.value),
    }
    return as_one(arrays), {"value": np.asarray(found.value).tolist()}


def as_one(arrays: dict) -> dict:
    """Add an axis of one run to arrays without one."""
    return {name: None if x is None else np.asarray(x)[None] for name, x in arrays.items()}


BEST, LINGAPE = je.BestArm(), je.LinGapE()


def simulation(name, instance, problem=BEST, rule=LINGAPE, **settings) -> Job:
    """A job of `simulate`: few runs on one device, with a small cap, two observers."""
    usual = dict(
        delta=0.05, stopping=TWO, elimination=None, threshold=je.Heuristic(), runs=12, seed=0,
        max_samples=3000, ridge=1.0, noise=None, record=(), engine=ONE,
    )  # fmt: skip
    return Job(name, instance, problem, rule, {**usual, **settings}, simulated)


def one_run(name, instance, problem=BEST, rule=LINGAPE, **settings) -> Job:
    usual = dict(delta=0.05, stopping=LLR, elimination=None, threshold=je.Heuristic(), seed=0,
                 run=3, max_samples=2000, ridge=1.0)  # fmt: skip
    return Job(name, instance, problem, rule, {**usual, **settings}, traced)


def optimum(name, instance, problem) -> Job:
    return Job(name, instance, problem, None, {"gap": 1e-10}, solved)


JOBS = (
    # LinGapE: each problem and structure, three observers; elimination at sampling.
    simulation("lingape linear-d20", D20, delta=0.01, max_samples=100_000),
    simulation("lingape linear-d20 at sampling", D20, delta=0.01, **SAMPLED, max_samples=100_000),
    simulation("lingape full at sampling", scaled(D20, 4.0), stopping=FULL, elimination=FULL),
    simulation("lingape top-m pair times", scaled(D10_TOP, 3.0), je.TopM(3), stopping=ALL,
               record=("pair_times",)),
    simulation("lingape top-m at sampling", scaled(D20, 8.0), je.TopM(5), **SAMPLED, ridge=0.0),
    simulation("lingape signs", scaled(D20_SIGNS, 4.0), je.Thresholding(0.1), stopping=ALL),
    simulation("lingape unstructured signs at sampling", scaled(K40_SIGNS, 4.0), je.Thresholding(),
               stopping=FULL, elimination=FULL, ridge=0.0),
    simulation("lingape diagonal", scaled(K40, 3.0), je.BestArm(), je.LinGapE(rate=1.5),
               stopping=ALL, threshold=je.GK16(), ridge=0.0, seed=11),
    simulation("lingape a trajectory per delta", MIDDLE, delta=[0.1, 0.001, 0.02]),
    simulation("lingape batch own arms", OWN, runs=[5, 0, 17, 3]),
    simulation("lingape batch shared arms", THREE, je.TopM(2), stopping=(SELECTIVE, FULL),
               ridge=0.0),
    simulation("lingape near-identical arms", NEAR, max_samples=500),
    simulation("lingape near-identical top-m", NEAR, je.TopM(2), stopping=FULL, elimination=FULL),
    simulation("lingape chunk", MIDDLE, **SAMPLED,
               engine=dataclasses.replace(ONE, lanes=16, chunk=36)),
    simulation("lingape lanes and chunk", EIGHT, runs=100,
               engine=je.Engine(lanes=16, chunk=8, devices=1)),
    simulation("lingape two devices", MIDDLE, stopping=SELECTIVE, runs=70,
               engine=je.Engine(lanes=32, chunk=16, devices=2, shrink=True)),
    simulation("lingape given noise", je.Instance(ARMS, [3.0, -2.4, 1.8], noise_std=2.0),
               je.TopM(2), noise=NOISE),
    simulation("lingape linear threshold", SMALL, ridge=0.5, max_samples=6000,
               threshold=je.thresholds.LinearThreshold(3, 3.5, 2.5, ridge=0.5)),
    simulation("lingape resets selective", SMALL,
               elimination=je.Resets(SELECTIVE, alpha=je.Heuristic(), t0=2.0), stopping=LLR),
    simulation("lingape resets full top-m", SMALL, je.TopM(2),
               elimination=je.Resets(FULL, alpha=je.Heuristic(), t0=2.0), stopping=LLR),
    simulation("lingape half-spaces", SMALL, half_spaces_of_best_arm(ARMS), stopping=ALL),
    # The other rules.
    simulation("lingame deltas on one trajectory", scaled(D20, 4.0), je.BestArm(), je.LinGame(),
               delta=[0.1, 0.001, 0.02], max_samples=10_000),
    simulation("lingame optimistic top-m at sampling", scaled(D10_TOP, 3.0), je.TopM(3),
               je.OptimisticLinGame(), **SAMPLED),
    simulation("lingame half-spaces at sampling",
               je.Instance(ARMS, [1.0, -0.8, 0.6], noise_std=1.5), quadrants(3, (0.3, -0.2)),
               je.LinGame(), **SAMPLED),
    simulation("lingame unstructured resets", EIGHT, je.Thresholding(0.4), je.LinGame(),
               elimination=je.Resets(SELECTIVE), threshold=LogLog(), stopping=LLR),
    simulation("fws linear", scaled(je.instances.linear_d10(0, K=12), 2.0), je.BestArm(), je.FWS(),
               runs=6),
    simulation("fws unstructured top-m at sampling", EIGHT, je.TopM(2), je.FWS(), **SAMPLED,
               runs=20, max_samples=500,
               engine=je.Engine(lanes=16, chunk=8, devices=1, shrink=False)),
    simulation("lazy-tas linear-d20", scaled(D20, 8.0), je.BestArm(), je.LazyTaS(), runs=6),
    simulation("lazy-tas unstructured signs at sampling", EIGHT, je.Thresholding(0.4), je.LazyTaS(),
               **SAMPLED, ridge=0.0, runs=6),
    simulation("lingifa linear top-m", scaled(D10_TOP, 3.0), je.TopM(3), je.LinGIFA(), runs=6),
    simulation("lucb best-arm native", EIGHT, je.BestArm(), je.LUCB(), stopping=(*ALL, NATIVE),
               delta=[0.1, 0.01]),
    simulation("lucb top-m at sampling", SCALED, je.TopM(2), je.LUCB(), **SAMPLED, ridge=0.0),
    simulation("lingape best or none", scaled(SMALL, 2.0), je.BestArm(reference=1.5), stopping=ALL),
    simulation("lucb signs", scaled(K40_SIGNS, 3.0), je.Thresholding(), je.LUCB(),
               stopping=(SELECTIVE, NATIVE)),
    simulation("ugape top-m native", EIGHT, je.TopM(3), je.UGapE(),
               stopping=(LLR, SELECTIVE, NATIVE)),
    simulation("racing top-m", EIGHT, je.TopM(3), je.Racing(), stopping=NATIVE),
    simulation("racing best-arm batch", FOUR, je.BestArm(), je.Racing(), stopping=NATIVE),
    simulation("rage linear", SMALL, je.BestArm(), je.RAGE(steps=500), stopping=NATIVE, runs=6),
    simulation("xy-adaptive linear", scaled(je.instances.linear_d10(1, K=13), 2.0), je.BestArm(),
               je.XYAdaptive(), stopping=NATIVE, runs=6),
    simulation("oracle linear-d20", scaled(D20, 4.0), je.BestArm(), je.Oracle(),
               max_samples=10_000),
    simulation("oracle signs given weights", THREE, je.Thresholding(0.4),
               je.Oracle(np.array([3, 1, 2, 1, 2, 1]) / 10), stopping=(LLR, FULL)),
    simulation("tas D", SMALL, je.BestArm(), je.TrackAndStop(), runs=6),
    simulation("tas C signs at sampling", scaled(SMALL, 2.0), je.Thresholding(0.3),
               je.TrackAndStop(tracking="C", schedule=7), **SAMPLED, runs=6),
    simulation("tas C half-spaces", je.Instance(np.eye(3), [1.0, -0.8, 0.6]),
               quadrants(3, (0.3, -0.2)), je.TrackAndStop(tracking="C", schedule=7), runs=6),
    simulation("optimistic-tas top-m", SMALL, je.TopM(2), je.OptimisticTaS(schedule=5), runs=6,
               max_samples=500),
    simulation("uniform unstructured", SCALED, je.BestArm(), je.Uniform(), stopping=ALL,
               delta=[0.1, 0.01, 1e-4], threshold=log_threshold),
    simulation("uniform cut off", K40, je.TopM(3), je.Uniform(), stopping=(LLR, FULL),
               max_samples=500),
    # Other reward families.
    simulation("family bernoulli top-two ids", COINS, je.BestArm(), je.TTUCB("ids"), stopping=ALL,
               ridge=None),
    simulation("family bernoulli kl-lucb", COINS, je.TopM(2), je.LUCB(), stopping=ALL, ridge=None),
    simulation("family bernoulli tas", COINS, je.BestArm(), je.TrackAndStop(), ridge=None),
    simulation("family poisson k-learner", COUNTS, je.Thresholding(2.0), je.LinGame(), **SAMPLED,
               ridge=None),
    simulation("family exponential fws", TIMES, je.BestArm(), je.FWS(), stopping=(LLR, FULL),
               ridge=None),
    simulation("family gaussian-by-arm uniform",
               je.Instance.unstructured([1.0, 0.3, -0.2], je.Gaussian(std=[1.0, 0.5, 2.0])),
               je.BestArm(), je.Uniform(), stopping=ALL, ridge=None),
    simulation("family unknown-variance lucb",
               je.Instance.unstructured([1.0, 0.3, -0.2], je.GaussianUnknownVariance()),
               je.BestArm(), je.LUCB(), stopping=ALL, ridge=None),
    # Traces, and the lower bound.
    one_run("trace lingape linear-d20", D20, je.BestArm(), je.LinGapE(), stopping=SELECTIVE),
    one_run("trace lucb unstructured top-m", SCALED, je.TopM(2), je.LUCB(), **SAMPLED),
    optimum("complexity best-arm", D20, je.BestArm()),
    optimum("complexity signs batch", THREE, je.Thresholding(0.4)),
    optimum("complexity unstructured top-m", K40, je.TopM(3)),
)  # fmt: skip
