"""The contracts: families, problems, sets of pieces, sampling rules, stopping rules.

Read this file first, then `jaxelim.contracts.views` (the methods' arguments) and
`jaxelim.contracts.shapes` (the pieces). Axis letters: K arms, d dimensions, Q pieces of
the empirical answer, B lanes. Shapes leave the lanes out (see `jaxelim.lanes`).
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim import scope
from jaxelim.contracts.shapes import Interval, Levels, Rows, Shape
from jaxelim.contracts.traits import Traits, refuse_stray
from jaxelim.contracts.views import ArmContext, Estimate, Evidence, Snapshot, Statistics, Tree, View
from jaxelim.errors import ArgumentError, UnsupportedError, undefined
from jaxelim.lanes import ArmBlock, LaneOps

if TYPE_CHECKING:
    from jaxelim.instances.instance import Instance

ASK, OK = np.int32(0), np.int32(1)
"""Status of a rule's `fast`. OK: the arm is right. ASK: the lane waits until `choose` decides."""


class Family:
    """The contract of a reward family: a frozen dataclass of settings. Methods with an instance
    run on the host. The others are traced, lanes last."""

    name: ClassVar[str] = ""
    noise: ClassVar[str] = "uniform"  # what `draw` is given: "uniform" on [0, 1), or "normal"
    structures: ClassVar[tuple[str, ...]] = ("unstructured",)
    shapes: ClassVar[tuple[type[Shape], ...]] = (Rows, Levels)
    initial_pulls: ClassVar[int] = 1  # the least number of initial pulls of each arm
    ridge: float = 0.0  # of the design matrix, for a family that has one
    refresh: int | None = None  # samples between two calls of `refreshed`, in float32
    optimization: str | None = None  # LLVM's level for a CPU's program; None: XLA's choice

    @property
    def scale(self) -> float:
        """The unit of rewards and means in a run."""
        return 1.0

    def check(self, instance: "Instance") -> None:
        """Refuse means out of the family's range."""

    def check_shape(self, problem: "Problem", shape: Shape) -> None:
        """Refuse pieces that the family knows no evidence about, such as levels out of range."""
        if not isinstance(shape, self.shapes):
            known = " or ".join(kind.__name__ for kind in self.shapes)
            raise UnsupportedError("problem", problem, f"pieces of {known} for {self!r}")

    def check_noise(self, noise: np.ndarray, precision: str) -> None:
        """Refuse given noise that `draw` does not take."""

    def ridge_of(
        self, ridge: float | None, instance: "Instance", threshold: Callable
    ) -> float | None:
        """The ridge of a run, from the caller's; refuse one that the family does not have."""
        if ridge is not None:
            raise ArgumentError("ridge", ridge, f"None: {self!r} has no ridge")
        return None

    def warn(self, ridge: float | None, instance: "Instance", threshold: Callable, delta: float):
        """Warn of what is allowed but may make answers wrong."""

    def forms(self, instance: "Instance", problem: "Problem") -> tuple[str, ...]:
        """What `Engine(form=...)` may be."""
        return ()

    def settled(self, **job: Any) -> "Family":
        """The family with all that the program of a job depends on, such as a form of V^-1."""
        return self

    def plan(self) -> dict[str, Any]:
        """The family's entries in a result's `layout`."""
        return {}

    def nature(self, instance: "Instance") -> Tree:
        """What `draw` needs of the truth: NumPy arrays [instance, ..]."""
        raise undefined(self, "nature(instance)")

    def tables(self, instance: "Instance") -> Tree:
        """What else `start` needs: NumPy arrays [instance, ..]."""
        return ()

    def space(self, lanes: LaneOps, features: Array, constants: Tree) -> ArmContext:
        """The primitives and arrays that are fixed over a run."""
        return ArmContext(lanes, features, constants)

    def draw(self, lanes: LaneOps, nature: Tree, arm: Array, pull: Array, noise: Array) -> Array:
        """The reward of an arm, []; `pull` [] int32: its number of earlier pulls."""
        raise undefined(self, "draw(lanes, nature, arm, pull, noise)")

    def start(
        self, space: ArmContext, problem: "Problem", tables: Tree, rewards: Array
    ) -> Statistics:
        """The statistics after one pull of each arm; rewards [K, B], tables of one instance.

        Further initial pulls are samples like any other, by `update`.
        """
        raise undefined(self, "start(space, problem, tables, rewards)")

    def update(self, seen: Snapshot, arm: Array, reward: Array, go: Array) -> Statistics:
        """The statistics after one more sample where `go` [] bool holds; unchanged elsewhere."""
        raise undefined(self, "update(seen, arm, reward, go)")

    def refreshed(self, features: Array, stats: Statistics) -> Statistics:
        """Recompute one run's statistics from what float32 holds exactly."""
        return stats

    def degenerate(self, stats: Statistics) -> Array | None:
        """1 + the first arm with rewards that contradict the family, else 0; None: never so.

        [] int32. The engine asks at the end of a run, and the call then fails.
        """
        return None

    def evidence(self, space: ArmContext, stats: Statistics, shape: Shape) -> Evidence:
        """The evidence of the samples about pieces of this shape."""
        raise undefined(self, "evidence(space, stats, shape)")

    def refuted_pairs(
        self, seen: Snapshot, arms: ArmBlock, beta: Array
    ) -> Sequence[tuple[Array, Array]]:
        """For each arm i of a block: i, and which pieces mu_i <= mu_k are refuted, [K] bool."""
        raise undefined(self, "refuted_pairs(seen, arms, beta)")

    def interval(self, seen: View, means: Array, beta: Array) -> Interval:
        """Confidence intervals of means [K] at level beta [], for the samples of `seen`."""
        raise undefined(self, "interval(seen, means, beta)")


class Problem:
    """The contract of a problem: it must define `answer`, `public`, `shape` and `check`.

    An answer is right iff the truth is in none of its pieces. (Paper, appendix "Identification
    Problems".) Methods may be written for one run, under `jax.vmap`, or also right `lanes_last`.
    """

    name: ClassVar[str] = ""
    lanes_last: ClassVar[bool] = False
    uses_theta: ClassVar[bool] = False  # reads theta_hat, or has pieces not made of arms
    shared_answers: ClassVar[bool] = False  # several answers have one public form
    times_axes: ClassVar[tuple[str, ...]] = ("arm",)  # of what `PieceSet.times` gives
    m: int = 1  # number of arms in an answer of best arm or top m

    def check(self, arms: np.ndarray, theta: np.ndarray) -> None:
        """Host: refuse an instance, arms [K, d] and theta [d], without a unique right answer."""

    def answer(self, seen: Estimate) -> Tree:
        """The empirical answer: arrays, in the problem's own form."""
        raise undefined(self, "answer(seen)")

    def public(self, seen: Estimate, answer: Tree) -> Array:
        """The public form of an answer: [K] bool, or as long as `width` says."""
        raise undefined(self, "public(seen, answer)")

    def shape(self, seen: Estimate, answer: Tree) -> Shape:
        """The pieces of an answer: `Rows`, `Levels` or `Directions`."""
        raise undefined(self, "shape(seen, answer)")

    def pieces(self, seen: Snapshot, pair_times: bool = False) -> "PieceSet":
        """The full set of pieces, for elimination; by default one made from the shape."""
        raise undefined(self, "pieces(seen, pair_times)")

    def plain_pieces(self, seen: Snapshot) -> "PieceSet":
        """The full set for `Resets`, which restarts sets: without times or early ends."""
        return self.pieces(seen)

    def width(self, arms: int) -> int:
        """Length of a public answer."""
        return arms

    def half_spaces(self, arms: np.ndarray, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Host: directions [P, d] and offsets [P] of the pieces of theta's answer."""
        with scope.engine():
            given = jnp.asarray(arms @ theta), jnp.asarray(theta), self.constants()
            seen = Estimate(LaneOps(), *given)
            return self.shape(seen, self.answer(seen)).half_spaces(arms)

    def scaled(self, scale: float) -> "Problem":
        """The same problem for means divided by `scale`."""
        return self

    def static_part(self) -> "Problem":
        """The problem without its arrays. Equal static parts share a compiled program."""
        return self

    def constants(self) -> Tree:
        """Host: the problem's arrays. `answer` and `shape` read them from `seen.constants`."""
        return ()

    def out_of_range(self, seen: Snapshot) -> tuple[Array, Array] | None:
        """The answer as a number, not 0 if out of range, and whether it is: [] int32, [] bool."""
        return None

    def in_range(self, arms: int) -> tuple[str, str]:
        """For the error of `out_of_range`: the argument's name, and what is allowed."""
        return "problem", f"a shape(seen, answer) whose arms `first` are from 0 to {arms - 1}"


class PieceSet:
    """The contract of a set of pieces that elimination reduces: a registered dataclass."""

    def active(self, seen: Snapshot | View) -> Array:
        """Which pieces of the answer of `seen` are in the set: [Q] bool."""
        raise undefined(self, "active(seen)")

    def active_count(self, seen: Snapshot | View) -> Array:
        """The number of pieces that are `active`: [] int32."""
        return seen.lanes.sum(self.active(seen))

    def drop(self, seen: Snapshot, refuted: Array) -> "PieceSet":
        """The set without the pieces of the answer that are `refuted`, [Q] bool."""
        raise undefined(self, "drop(seen, refuted)")

    def drop_all(self, seen: Snapshot, beta: Array) -> "PieceSet":
        """The set without the pieces, of all answers, that beta [] refutes."""
        return self.drop(seen, seen.shape.exists & seen.evidence.refuted(beta))

    def tests(self, seen: Snapshot, full: bool) -> Array:
        """The number of pieces that the next check tests: [] int32."""
        return self.active_count(seen)

    def settled(self, seen: Snapshot, full: bool) -> Array:
        """Whether the set settles an answer: [] bool."""
        return ~seen.lanes.any(self.active(seen))

    def verdict(self, seen: Snapshot, full: bool) -> Array:
        """The public form of that answer: [K] bool."""
        return seen.public

    def times(self) -> Array | None:
        """When each piece was eliminated, 0 for never; None if not recorded."""
        return None

    def remaining(self, lanes: LaneOps) -> Array:
        """The number that a trace records of the set: [] int32."""
        raise undefined(self, "remaining(lanes)")


class SamplingRule:
    """The contract of a sampling rule: a frozen dataclass of settings with pure methods.

    It must define `choose`, and `init` if it has a state. They may be written for one run, and are
    then called under `jax.vmap`. `traits` declares what it needs and allows.
    """

    traits: ClassVar[Traits] = Traits()
    fast: ClassVar[Any] = None  # fast(view, state) -> (arm, state, status): cheap, and right if OK

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        refuse_stray(vars(cls))

    def prepare(self, instance: Any, problem: Problem, ridge: float | None) -> Tree:
        """Host: NumPy arrays computed once for each instance; `view.prepared` holds them."""
        return ()

    def report(self, instance: Any, problem: Problem) -> dict[str, float]:
        """Host: names and numbers of `prepare`'s work, for a result's settings."""
        return {}

    def static_part(self) -> "SamplingRule":
        """The rule without its arrays, which `prepare` returns; equal ones share a program."""
        return self

    def init(self, view: View) -> Tree:
        """The rule's state after the initial pulls."""
        return ()

    def choose(self, view: View, state: Tree) -> tuple[Array, Tree]:
        """The arm to pull, [] int32, and the next state. This defines the rule."""
        raise undefined(self, "choose(view, state)")

    def piece_tests(self, view: View, state: Tree) -> Array:
        """The number of pieces that this choice tests (the paper's cost measure): []."""
        return view.active_count if self.traits.tests_pieces else jnp.zeros_like(view.t)

    def native(self, view: View, state: Tree) -> tuple[Array, Array] | None:
        """The native test of the next state: whether it stops, [] bool, and its answer, [K]."""
        return None


class StoppingRule:
    """The contract of a stopping rule: `observe` reads a snapshot and never changes the run."""

    name: ClassVar[str] = ""
    eliminates: ClassVar[bool] = False
    shared: ClassVar[bool] = True  # as elimination at sampling: uses the stopping rule's set
    full: ClassVar[bool] = False  # tests the pieces of all answers

    def start(self, seen: Snapshot, pair_times: bool = False) -> Tree:
        """The state before the first check."""
        return ()

    def update(self, seen: Snapshot, state: Tree, beta: Array) -> Tree:
        """The set without the pieces that beta refutes, for a rule that eliminates."""
        return state

    def observe(self, seen: Snapshot, state: Tree, beta: Array) -> tuple[Tree, Array, Array]:
        """The next state, whether to stop, [] bool, and the number of tested pieces, [] int32."""
        raise undefined(self, "observe(seen, state, beta)")

    def answer(self, seen: Snapshot, state: Tree) -> Array:
        """The public answer on stopping with this next state; called only if some run is over."""
        return seen.public
