"""Small results from made-up arrays: nothing compiles."""

import dataclasses
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np

import jaxelim as je
from jaxelim import catalogue, families, problems
from jaxelim.contracts.traits import Traits
from jaxelim.simulation.experiment import Experiment
from jaxelim.simulation.results.descriptions import hash_of
from jaxelim.thresholds.kaufmann_koolen import KaufmannKoolen

MEANS = (0.5, 0.3, 0.2)
COINS = je.Instance.unstructured(MEANS, je.Bernoulli(), name="coins")
PLANE = je.Instance([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]], [1.0, 0.2], 0.1, name="plane")
ITEMS = np.array([[1.0, 0.0], [0.5, 0.5], [-1 / 3, 0.7]])
Y = np.array([[[1.0, -1.0]], [[-1.0, 1.0]]])


def larger(theta):
    """The index of the larger coordinate."""
    return jnp.argmax(theta).astype(jnp.int32)


@dataclasses.dataclass(frozen=True)
class Mine(je.contracts.SamplingRule):
    """A rule of one's own."""

    rate: float = 1.5
    traits: ClassVar[Traits] = Traits()


@dataclasses.dataclass(frozen=True)
class MyProblem(je.BestArm):
    """A problem of one's own."""

    shift: float = 0.25


@dataclasses.dataclass(frozen=True)
class MyFamily(je.Poisson):
    """A family of one's own."""

    share: float = 0.5


@dataclasses.dataclass(frozen=True)
class MyStop(je.SelectiveElimination):
    """A stopping rule of one's own."""

    name: ClassVar[str] = "my-stop"


@dataclasses.dataclass(frozen=True)
class MyThreshold:
    """A threshold of one's own."""

    factor: float = 2.0

    def __call__(self, t, delta):
        return self.factor * jnp.log((1 + t) / delta)


OWN = {
    "rule": Mine(), "problem": MyProblem(), "threshold": MyThreshold(0.1 + 0.2),
    "stopping": (je.LLR(), MyStop()), "elimination": je.Resets(MyStop(), MyThreshold(), 3.0),
}  # fmt: skip

RULES = [
    *(rule() for rule in catalogue.rules().values()),
    *(preset() for preset in catalogue.presets().values()),
    je.LinGapE(rate=0.1 + 0.2),
    je.LUCB(pulls=2),
    je.Oracle([0.25, 0.35, 0.4]),
    je.TopTwo("ucb", "rs", share="ids", select="tracking"),
    je.TrackAndStop(gap_share=0.3, schedule=7),
    je.OptimisticTaS(gap_share=1e-7),
]
PROBLEMS = [
    je.BestArm(),
    je.BestArm(epsilon=0.1),
    je.BestArm(items=ITEMS),
    je.BestArm(reference=0.25),
    je.TopM(2),
    je.Thresholding(-1 / 3),
]
FAMILIES = [
    *(kind() for kind in families.KINDS),
    je.Gaussian((0.1, 0.2, 0.3)),
    je.Gaussian(0.1 + 0.2),
    je.GaussianUnknownVariance("glr"),
]  # fmt: skip
STOPPING = [kind() for kind in catalogue.stopping_rules().values()]
ELIMINATIONS = [
    None, je.SelectiveElimination(), je.FullElimination(),
    je.Resets(je.FullElimination(), je.Heuristic(), 2.5), je.Resets(je.SelectiveElimination()),
]  # fmt: skip
THRESHOLDS = [
    je.Heuristic(), je.GK16(), je.thresholds.LinearThreshold(2, 1.0, 1.1),
    KaufmannKoolen(6, 2, True), je.Mixture((3.0, 30.0), 3),
]  # fmt: skip


def uncovered() -> set[str]:
    """Names in the registers that no case here has."""
    have = {type(one).__name__ for one in (*RULES, *PROBLEMS, *FAMILIES, *STOPPING, *THRESHOLDS)}
    have |= {"HalfSpaces"}  # has a function of one's own
    known = [*catalogue.rules().values(), *catalogue.stopping_rules().values(), *families.KINDS]
    known += [getattr(problems, name) for name in problems.__all__]
    known += catalogue.names("threshold").values()
    return {kind.__name__ for kind in known} - have


def result_of(instance: Any = COINS, width: int | None = None, **changes: Any) -> je.Result:
    """A result of made-up numbers; `width`: of its answers."""
    problem = changes.get("problem", je.BestArm())
    stopping = changes.pop("stopping", (je.LLR(), je.SelectiveElimination()))
    deltas, runs = np.array([0.1, 0.01]), np.array([4, 7, 8, 100])
    lead = (instance.size,) if instance.batched else ()
    shape = (*lead, len(stopping), deltas.size, runs.size)
    rng = np.random.default_rng(5)
    width = instance.K if width is None else width
    samples = rng.integers(50, 90, shape).astype(np.int32)
    times = rng.integers(0, 50, (*shape, width)).astype(np.int32)
    usual = {field.name: field.default for field in dataclasses.fields(Experiment)}
    call = usual | dict(
        instance=instance, problem=problem, rule=je.LinGapE(), delta=deltas, stopping=stopping,
        runs=runs, seed=3, max_samples=1000, initial_pulls=1,
        ridge=instance.family.ridge_of(None, instance),
    )  # fmt: skip
    call |= {name: changes.pop(name) for name in call.keys() & changes.keys()}
    given = dict(
        samples=samples, stopped=rng.random(shape) < 0.8,
        answer=rng.random((*shape, width)) < 0.5, correct=rng.random(shape) < 0.9,
        pulls=rng.integers(1, 30, (*shape, instance.K)).astype(np.int32), elimination_times=times,
        tests_stopping=rng.integers(0, 2**40, shape), tests_sampling=rng.integers(0, 9, shape),
        solves=None, timings={"seconds": 0.1 + 0.2, "compile_seconds": 1 / 3,
                              "samples_drawn": 12345},
        layout={"lanes": 16, "form": None, "entrance": "lanes"},
        origin={"proven": "it was not simulated", "version": je.__version__, "revision": 5,
                "instance_sha256": hash_of(instance)},
    )  # fmt: skip
    return je.Result(experiment=Experiment.unchecked(**call), **given | changes)
