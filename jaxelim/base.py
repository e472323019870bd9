"""The few types that everything speaks. Read this file first: a sampling rule or a problem of one's own needs no other.

Axis letters: K arms, d dimensions, Q pieces of the empirical answer, B lanes (runs side by side). A run's own axes first, lanes
last; shapes in docstrings leave the lanes out (see `jaxelim.lanes`).
"""

import dataclasses
import inspect
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim.design import Design, DiagonalDesign, Space, weighted
from jaxelim.kept import Kept
from jaxelim.lanes import Lanes

Tree = Any

ASK, OK, WORKING = (np.int32(i) for i in range(3))
"""What a rule's `fast` says of itself: ASK, this needs the full definition, `choose` (nothing of the lane moves meanwhile);
OK, this is the arm; WORKING, the rule's own state moved on, there is no sample yet."""


def refutes(gap: Array, norm: Array, beta: Array) -> Array:
    """Whether `likelihood_ratio(gap, norm)` > beta, without a division."""
    return (gap > 0) & (norm > 0) & (gap**2 > 2 * beta * norm)


def likelihood_ratio(gap: Array, norm: Array) -> Array:
    """inf over the half-space of L_t: max(gap, 0)^2/(2 norm), gap = y . theta_hat - c, norm = ||y||^2_{V^-1}; 0 for y = 0.

    (Paper, appendix: the infimum LLR of a half-space in linear Gaussian models, with the factor 1/2.)
    """
    exists = norm > 0
    return jnp.where(exists, jnp.maximum(gap, 0) ** 2 / (2 * jnp.where(exists, norm, 1)), 0)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Statistics:
    """What a run has seen after t samples."""

    t: Array  # [] int32
    counts: Array  # [K] pulls of each arm, whole numbers in the floating type
    means: Array  # [K], phi_k . theta_hat
    design: Design  # V^-1 in one of three forms
    theta_hat: Array | None = None  # [d]; kept where a problem or near-equal arms need it
    reward_sums: Array | None = None  # [K]; kept where the rule says `uses_rewards`, and in float32
    lost: Array | None = None  # [K]: what rounding has taken from each of them so far, negated; in float32
    products: Kept | None = None  # the last check's, moved on by the sample since; None where every check makes its own


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Check:
    """What elimination and stopping rules see at one t."""

    space: Space
    problem: "Problem"
    stats: Statistics
    answer: Tree
    gap: Array  # [Q]
    exists: Array  # [Q] bool: which of the Q places hold a piece
    metric: "Metric"

    @property
    def mask(self) -> Array:
        """The public form of the empirical answer: [K] bool."""
        return self.problem.mask(self.answer, self.stats.means)

    @property
    def llr(self) -> Array:
        """[Q]."""
        return likelihood_ratio(self.gap, self.metric.norm)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Metric:
    """The empirical answer's pieces as some weights see them: norm_p = ||y_p||^2 in the inverse of V (or of V_w)."""

    space: Space
    problem: "Problem"
    design: Design
    answer: Tree
    norm: Array  # [Q]
    cross: Tree

    def along(self, piece: Array) -> Array:
        """phi_k' V^-1 y_piece for every arm k: [K]."""
        return self.problem.along(self.space, self.design, self.answer, self.cross, piece)

    def values(self, gap: Array) -> Array:
        """H_p for every piece: max(gap_p, 0)^2/(2 norm_p): [Q]."""
        return likelihood_ratio(gap, self.norm)

    def gradient(self, gap: Array, piece: Array) -> Array:
        """dH_piece/dw_k = (phi_k . (theta_hat - lambda))^2/2, lambda the piece's closest point: [K]."""
        lanes = self.space.lanes
        norm = lanes.take(self.norm, piece)
        pull = jnp.where(norm > 0, lanes.take(gap, piece) / jnp.where(norm > 0, norm, 1), 0)
        return (pull * self.along(piece)) ** 2 / 2


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class View:
    """What a sampling rule sees when it is asked for an arm."""

    space: Space
    problem: "Problem"
    t: Array  # [] int32: the index of the sample about to be drawn, one more than the samples so far
    counts: Array  # [K]: pulls before that sample, whole numbers in the floating type
    means: Array  # [K]: phi_k . theta_hat
    design: Design
    answer: Tree  # the problem's own form of the empirical answer
    gap: Array  # [Q]: y_p . theta_hat - c_p of the empirical answer's pieces
    norm: Array  # [Q]: ||y_p||^2_{V^-1}
    active: Array  # [Q] bool: the pieces to be looked at, all of them or those that elimination has left
    reading: Array  # [] int32: how many those are
    metric: Metric  # of V itself
    delta: Array  # []
    beta: Array  # []: the threshold at (t, delta), t as above
    prepared: Tree  # what the rule's `prepare` made on the host
    theta_hat: Array | None = None  # [d]; None unless kept (see Statistics)
    reward_sums: Array | None = None  # [K]; None unless the rule says `uses_rewards`
    kept: Tree = ()  # the set that elimination has left, behind `active`
    chance: Array | None = None  # []: uniform on [0, 1), from (seed, run, t) alone; None unless the rule says `uses_chance`
    ridge: float = dataclasses.field(default=1.0, metadata={"static": True})
    elimination: Any = dataclasses.field(default=None, metadata={"static": True})  # at sampling, or None

    @property
    def lanes(self) -> Lanes:
        """argmax, argmin, min, max, sum, take, row over arms: use these, they are right for one run and fast for many."""
        return self.space.lanes

    @property
    def llr(self) -> Array:
        """The LLR of the empirical answer's pieces: [Q]."""
        return likelihood_ratio(self.gap, self.norm)

    @property
    def features(self) -> Array:
        """[K, d]."""
        return self.space.features

    @property
    def time(self) -> Array:
        """t as a float: []."""
        return self.t.astype(self.means.dtype)

    @property
    def exists(self) -> Array:
        """Which of the Q places hold a piece of `answer`: [Q] bool."""
        return self.problem.exists(self.answer, self.means)

    def active_of(self, answer: Tree) -> tuple[Array, Array]:
        """What `active` and `reading` are to the empirical answer, for one that the rule has from other means."""
        return looked_at(dataclasses.replace(self, answer=answer), self.elimination, self.kept)

    def along(self, piece: Array) -> Array:
        """phi_k' V^-1 y_piece for every arm k: [K]."""
        return self.metric.along(piece)

    def narrowing(self, along: Array) -> Array:
        """The arm k that minimises ||y||_{(V + phi_k phi_k')^-1}, given along = Phi V^-1 y [K]."""
        return self.lanes.argmax(along**2 / (1 + self.design.g))

    def weighted(self, weights: Array) -> Metric:
        """The same pieces in the metric of V_w = sum_k w_k phi_k phi_k', weights [K] (no ridge)."""
        if isinstance(self.design, DiagonalDesign):
            return self.measured(DiagonalDesign(1 / weights))
        return self.measured(weighted(self.space, weights))

    def measured(self, design: Design) -> Metric:
        """The same pieces in the metric of another design."""
        norm, cross = self.problem.measure(self.space, design, self.answer)
        return Metric(self.space, self.problem, design, self.answer, norm, cross)


def looked_at(seen: Check | View, elimination: Any, kept: Tree) -> tuple[Array, Array]:
    """Which of the answer's pieces sampling looks at, [Q] bool, and how many they are, []: all of them, or those in the set
    `kept` that elimination at sampling has left."""
    lanes = seen.space.lanes
    if elimination is None:
        return seen.exists, seen.problem.total(seen.exists)
    if elimination.shared:
        return seen.problem.active(lanes, kept, seen.answer), seen.problem.reading(lanes, kept, seen.answer)
    active = elimination.active(seen, kept)
    return active, lanes.sum(active)


def check_of(problem: "Problem", space: Space, stats: Statistics) -> Check:
    """All that is read at one t, computed once and shared by everyone who looks."""
    answer = problem.answer(space, stats.means, stats.theta_hat)
    gap = problem.gap(space, stats.means, stats.theta_hat, answer)
    arms = problem.rows(answer)
    if stats.products is None or arms is None:
        norm, cross = problem.measure(space, stats.design, answer)
    else:
        products = stats.products.of(space, stats.design, arms)
        stats = dataclasses.replace(stats, products=products)
        norm, cross = problem.measure(space, stats.design, answer, products.cross)
    metric = Metric(space, problem, stats.design, answer, norm, cross)
    return Check(space, problem, stats, answer, gap, problem.exists(answer, stats.means), metric)


class SamplingRule:
    """The contract of a sampling rule: a frozen dataclass of settings with pure methods.

    `init` and `choose` are all that is needed; written for one run (a view without lanes) they work as they stand, under
    `jax.vmap`. A rule that is also right lanes-last, every array with one more trailing axis, says so by `lanes_last` and runs
    several times faster.
    """

    problems: ClassVar[tuple[str, ...]] = ("best-arm", "top-m", "thresholding", "half-spaces")
    structures: ClassVar[tuple[str, ...]] = ("linear", "unstructured")
    elimination: ClassVar[bool] = True  # may look at active pieces only
    stopping: ClassVar[tuple[str, ...]] = ("llr", "selective", "full")  # what may stop it; "native" if it carries a test
    always_native: ClassVar[bool] = False  # the native test ends the run whatever else is observed
    uses_delta: ClassVar[bool] = True  # choices depend on delta: one trajectory per delta
    uses_rewards: ClassVar[bool] = True  # reads view.reward_sums
    uses_chance: ClassVar[bool] = False  # draws at random, as to break ties: reads view.chance
    reads_pieces: ClassVar[bool] = True  # looks at the active pieces at every pull
    lanes_last: ClassVar[bool] = False
    fast: ClassVar[Any] = None
    source: ClassVar[str] = ""

    def prepare(self, instance: Any, problem: "Problem", ridge: float) -> Tree:
        """What is computed once per instance on the host, as NumPy arrays: handed back as `view.prepared`."""
        return ()

    def report(self, instance: Any, problem: "Problem") -> dict[str, float]:
        """What a result should say of `prepare`'s work (host): names and numbers, kept among its settings."""
        return {}

    def skeleton(self) -> "SamplingRule":
        """The rule without its arrays, which travel in `prepared`: rules with equal skeletons share one compiled program."""
        return self

    def init(self, view: View) -> Tree:
        """The rule's state after every arm was pulled once."""
        return ()

    def choose(self, view: View, state: Tree) -> tuple[Array, Tree]:
        """The whole definition: the arm to pull (int32) and the next state. Right in every state."""
        raise TypeError(f"{type(self).__name__} does not define choose(view, state)")

    def reads(self, view: View, state: Tree) -> Array:
        """How many pieces this choice looks at (the paper's cost measure): []."""
        if not self.reads_pieces:
            return jnp.zeros_like(view.t)
        return view.reading

    def native(self, view: View, state: Tree) -> tuple[Array, Array] | None:
        """The rule's own stopping test on its next state: whether it stops ([] bool), and its answer ([K] bool)."""
        return None


class Problem:
    """The contract of a problem: answers, and for each answer the half-spaces {lambda : y . lambda <= c} that make up its
    alternative (paper, appendix "Identification Problems")."""

    name: ClassVar[str] = ""
    full_is_selective: ClassVar[bool] = False  # the two eliminations coincide; all_refuted and drop_all are not needed
    uses_theta: ClassVar[bool] = False  # needs theta_hat and V^-1 themselves, not only their values on the arms

    def check(self, arms: np.ndarray, theta: np.ndarray) -> None:
        """Host: refuse an instance (arms [K, d], theta [d]) whose correct answer is not unique."""

    def scaled(self, noise_std: float) -> "Problem":
        """The same problem for theta/noise_std."""
        return self

    def skeleton(self) -> "Problem":
        """The problem without its numbers, which travel in `space.constants`: equal skeletons share one compiled program."""
        return self

    def constants(self) -> Tree:
        """Host: the arrays that `space.constants` holds."""
        return ()

    def half_spaces(self, arms: np.ndarray, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Host: directions [P, d] and offsets [P] of the pieces of theta's answer."""
        raise TypeError(f"{type(self).__name__} does not define half_spaces")

    def width(self, arms: int) -> int:
        """Length of a public answer: the number of arms, unless the problem says otherwise."""
        return arms

    def answer(self, space: Space, means: Array, theta_hat: Array | None) -> Tree:
        """The empirical answer, in the problem's own form."""
        raise TypeError(f"{type(self).__name__} does not define answer")

    def mask(self, answer: Tree, means: Array) -> Array:
        """The public form of an answer: [K] bool."""
        raise TypeError(f"{type(self).__name__} does not define mask")

    def out_of_range(self, answer: Tree) -> tuple[Array, Array] | None:
        """The answer's number, [] int32, not 0 where it is out of range, and whether it is, [] bool; None for a problem whose
        answers are always in range."""
        return None

    def gap(self, space: Space, means: Array, theta_hat: Array | None, answer: Tree) -> Array:
        """y_p . theta_hat - c_p of the answer's pieces: [Q]."""
        raise TypeError(f"{type(self).__name__} does not define gap")

    def exists(self, answer: Tree, means: Array) -> Array:
        """Which of the Q places hold a piece of this answer: [Q] bool."""
        raise TypeError(f"{type(self).__name__} does not define exists")

    def rows(self, answer: Tree) -> Array | None:
        """The arms i, [] or [m], for which `measure` asks the design for `cross(i)`, where that is all it needs of products;
        the engine then keeps those from sample to sample. None: `measure` asks for what it needs."""
        return None

    def takes_rows(self) -> bool:
        """Whether `measure` takes the products of `rows`: not one of a subclass that leaves that argument out."""
        return "cross" in inspect.signature(self.measure).parameters

    def measure(self, space: Space, design: Design, answer: Tree, cross: Array | None = None) -> tuple[Array, Tree]:
        """||y_p||^2_{V^-1} of the answer's pieces, [Q], and what `along` can use again. `cross`: that of `rows`, where it is
        known. A problem without `rows` can leave this argument out."""
        raise TypeError(f"{type(self).__name__} does not define measure")

    def along(self, space: Space, design: Design, answer: Tree, cross: Tree, piece: Array) -> Array:
        """phi_k' V^-1 y_piece for every k: [K]."""
        raise TypeError(f"{type(self).__name__} does not define along")

    def total(self, exists: Array) -> Array:
        """How many pieces the answer has: [] int32, the same form as the lanes' scalars. `exists` [Q] as above."""
        return jnp.sum(exists, 0, dtype=jnp.int32)

    # The set of pieces that elimination has left. Times of elimination are kept, 0 standing for "still active".

    def start(self, means: Array, pair_times: bool = False) -> Tree:
        """The set with every piece in it."""
        raise TypeError(f"{type(self).__name__} does not define start")

    def active(self, lanes: Lanes, pieces: Tree, answer: Tree) -> Array:
        """Which of the answer's Q pieces are in the set: [Q] bool."""
        raise TypeError(f"{type(self).__name__} does not define active")

    def reading(self, lanes: Lanes, pieces: Tree, answer: Tree) -> Array:
        """How many of the answer's pieces are in the set: [] int32."""
        return lanes.sum(self.active(lanes, pieces, answer))

    def drop(self, lanes: Lanes, pieces: Tree, answer: Tree, refuted: Array, t: Array) -> Tree:
        """The set without those pieces of the answer that are `refuted`, [Q] bool."""
        raise TypeError(f"{type(self).__name__} does not define drop")

    def all_refuted(self, space: Space, stats: Statistics, beta: Array) -> Array:
        """What full elimination drops at threshold beta []: all pieces of all answers that are refuted, in the form that
        `drop_all` takes."""
        raise TypeError(f"{type(self).__name__} does not define all_refuted")

    def drop_all(self, lanes: Lanes, pieces: Tree, refuted: Array, t: Array) -> Tree:
        """The set without all that is `refuted`, bool in the form of `all_refuted`."""
        raise TypeError(f"{type(self).__name__} does not define drop_all")

    def tests(self, lanes: Lanes, pieces: Tree, answer: Tree, full: bool) -> Array:
        """How many pieces the next elimination check looks at: [] int32."""
        raise TypeError(f"{type(self).__name__} does not define tests")

    def settled(self, lanes: Lanes, pieces: Tree, answer: Tree, full: bool) -> Array:
        """Whether the set settles the answer: [] bool."""
        raise TypeError(f"{type(self).__name__} does not define settled")

    def verdict(self, lanes: Lanes, pieces: Tree, answer: Tree, means: Array, full: bool) -> Array:
        """The answer that the set leaves, where it settles one: [K] bool."""
        raise TypeError(f"{type(self).__name__} does not define verdict")

    # A plain set of half-spaces, one bool each, which can be started anew (elimination at sampling with resets).

    def everything(self, means: Array) -> Array:
        """The full set, all True, in the form of `all_refuted` (signs: [K, 2])."""
        raise TypeError(f"{type(self).__name__} does not define everything")

    def within(self, lanes: Lanes, pieces: Array, answer: Tree) -> Array:
        """Which of the answer's Q pieces are in the set: [Q] bool."""
        raise TypeError(f"{type(self).__name__} does not define within")

    def without(self, lanes: Lanes, pieces: Array, answer: Tree, refuted: Array) -> Array:
        """The set less those pieces of the answer that are `refuted`, [Q] bool."""
        raise TypeError(f"{type(self).__name__} does not define without")

    def times(self, pieces: Tree) -> Array | None:
        """When each arm (piece, pair) was eliminated, 0 for never; None where that was not recorded."""
        return None

    def remaining(self, lanes: Lanes, pieces: Tree) -> Array:
        """What a trace shows of the set: [] int32."""
        raise TypeError(f"{type(self).__name__} does not define remaining")
