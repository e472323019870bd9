"""The contracts: problems, sets of pieces, sampling rules, stopping rules; families, sources.

Read this file first, then `views` (the methods' arguments), `pieces` and `family`. Axis letters:
K arms, d dimensions, Q pieces of the empirical answer, B lanes. Shapes leave the lanes out (see
`jaxelim.lanes`).
"""

import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim.contracts.family import Family, Source
from jaxelim.contracts.pieces import HalfSpaces, Interval, Pairs, Pieces
from jaxelim.contracts.proofs import STOPS
from jaxelim.contracts.sets import PieceSet, made_from
from jaxelim.contracts.views import Estimate, Evidence, Snapshot, Statistics, Tree, View
from jaxelim.errors import ArgumentError, undefined
from jaxelim.lanes import saturated, where


def _in_lanes(method: Callable) -> Callable:
    """A problem's method of an estimate, under `jax.vmap` where there are lanes it cannot take."""

    @functools.wraps(method)
    def of_lanes(self: "Problem", seen: Estimate, *answer: Tree) -> Any:
        own = functools.partial(method, self)
        if seen.means.ndim == 1:
            return own(seen, *answer)
        if not self.lanes_last:
            seen = dataclasses.replace(seen, lanes=seen.lanes.alone)
            axes: Any = Estimate(None, -1, -1, None)  # type: ignore[arg-type]
            own = jax.vmap(own, in_axes=(axes, *[-1] * len(answer)), out_axes=-1)
        found = own(seen, *answer)
        if isinstance(found, Pairs) and not found.signs:
            return dataclasses.replace(found, first=saturated(found.first))
        return found

    return of_lanes


class Problem:
    """The contract of a problem: it must define `answer`, `public` and `shape`.

    An answer is right iff the truth is in none of its pieces. (Paper, appendix "Identification
    Problems".) Methods may be written for one run, under `jax.vmap`, or also right `lanes_last`.
    """

    name: ClassVar[str] = ""
    lanes_last: ClassVar[bool] = False
    uses_theta: ClassVar[bool] = False  # reads theta_hat, or has pieces not made of arms
    shared_answers: ClassVar[bool] = False  # several answers have one public form
    times_axes: ClassVar[tuple[str, ...]] = ("arm",)  # of what `PieceSet.times` gives
    answer_axis: ClassVar[str | None] = None  # of a public answer, in tables; None: arms or answers
    m: int = 1  # number of arms in an answer of best arm or top m
    epsilon: float = 0.0  # slack: answers that are wrong by less are right too

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for name in {"answer", "public", "shape"} & set(vars(cls)):
            setattr(cls, name, _in_lanes(vars(cls)[name]))

    def check_arms(self, arms: np.ndarray) -> None:
        """Host: refuse arms, of features [K, d], that the problem is not defined for."""

    def check(self, arms: np.ndarray, theta: np.ndarray) -> None:
        """Host: refuse an instance, arms [K, d] and theta [d], without a unique right answer.

        `check_arms` has run. It alone does where nobody knows theta.
        """

    def answer(self, seen: Estimate) -> Tree:
        """The empirical answer: arrays, in the problem's own form."""
        raise undefined(self, "answer(seen)")

    def public(self, seen: Estimate, answer: Tree) -> Array:
        """The public form of an answer: [K] bool, or as long as `width` says."""
        raise undefined(self, "public(seen, answer)")

    def shape(self, seen: Estimate, answer: Tree) -> Pieces:
        """The pieces of an answer: `Pairs` or `HalfSpaces`, arrays of matching lengths.

        H* asks for it at the truth.
        """
        raise undefined(self, "shape(seen, answer)")

    def pieces(self, seen: Snapshot, pair_times: bool = False) -> PieceSet:
        """The full set of pieces, for elimination; by default one made from the shape."""
        return made_from(seen)

    def width(self, arms: int) -> int:
        """Length of a public answer."""
        return arms

    def correct(self, answers: np.ndarray, truth: np.ndarray, means: np.ndarray) -> np.ndarray:
        """Host: which public answers [.., W] are right for means [K], of answer `truth`: [..]."""
        return np.all(answers == truth, -1)

    def right_answers(self, means: np.ndarray) -> int:
        """Host: how many answers are right for means [K]; with slack there may be several."""
        return 1

    def wrong_answers(self, arms: int) -> int | None:
        """Host: how many pieces of K arms, of which one holds the truth where an answer is wrong.

        None: not known. A threshold divides delta by this number.
        """
        return None

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
        """The answer as a number, not 0 if out of range, and whether it is: [] each; or None."""
        shape, complete = seen.shape, type(self).pieces is not Problem.pieces
        if (self.lanes_last and complete) or not isinstance(shape, Pairs) or shape.signs:
            return None
        first: Any = shape.first
        number = jnp.where((first < 0) | (first >= shape.candidates), first, 0)
        if shape.several:
            number = jnp.max(number, 0) + jnp.where(jnp.max(number, 0) == 0, jnp.min(number, 0), 0)
        return number, number != 0

    def in_range(self, arms: int) -> tuple[str, str]:
        """For the error of `out_of_range`: the argument's name, and what is allowed."""
        return "problem", f"a shape(seen, answer) whose arms `first` are from 0 to {arms - 1}"


_STRUCTURES = ("linear", "unstructured")
KNOWN_STOPPING = (*STOPS, "native")  # traits allow or refuse these; any other is allowed
READS = ("delta", "rewards", "pieces", "chance", "key", "truth")


@dataclasses.dataclass(frozen=True)
class Traits:
    """What a rule is defined for, and what it reads.

    Calls that the traits do not allow are refused before anything compiles.

    Args:
        problems: names of problems, by their `name`. None: any.
        structures: "linear", "unstructured".
        families: names of reward families. None: any. ("gaussian",) is linear Gaussian
            rewards of one variance, with `view.linear`.
        native: what its own test ends. "also": runs with `Native()`. "always": all runs. "only":
            all runs, and no other stopping rule is allowed. None: it has no test.
        elimination: whether sampling may be restricted to the active pieces.
        slack: whether it is defined where pieces have slack, as of `BestArm(epsilon=)`.
        costs: whether it is defined for arms with costs: it reads `View.priced`, or ignores
            them and says so.
        reads: what choices depend on: some of "delta" (`view.delta`, `view.beta`, so each delta
            has its own trajectory), "rewards" (`view.reward_sums`), "pieces" (the active ones
            at every pull, which counts as tests), "chance" (`view.chance`), "key" (`view.key`),
            "truth" (theta, in `prepare`; a live run refuses the rule).
        lanes_last: the methods are also right with one more axis, of lanes, at the end,
            and no lane reads another. Only `jaxelim.testing.check` compares these forms.
        basis_free: choices are the same in any coordinates of R^d, as those are that are made
            of margins and of products phi_i' V^-1 phi_k. Nothing checks it. Linearly
            independent arms without a ridge then are computed as an unstructured instance.
        source: the rule's paper, for tables.
        name: on the command line. Empty: the class's name in lower case, words hyphenated.

    Raises:
        ArgumentError: a name is not known, or a value has the wrong type.
    """

    problems: tuple[str, ...] | None = None
    structures: tuple[str, ...] = _STRUCTURES
    families: tuple[str, ...] | None = ("gaussian",)
    native: str | None = None
    elimination: bool = True
    slack: bool = False
    costs: bool = False
    reads: tuple[str, ...] = ("delta", "rewards", "pieces")
    lanes_last: bool = False
    basis_free: bool = False
    source: str = ""
    name: str = ""

    def __post_init__(self) -> None:
        if self.native not in (None, "also", "always", "only"):
            raise ArgumentError("native", self.native, "None, 'also', 'always' or 'only'")
        known = {"structures": _STRUCTURES, "reads": READS}
        for name in ("structures", "reads", "problems", "families"):
            names, of = getattr(self, name), known.get(name)
            good = isinstance(names, tuple) and (len(names) > 0 or name == "reads")
            good = good and all(isinstance(x, str) and x in (of or names) for x in names)
            if not (good or (of is None and names is None)):
                some = f"a tuple of some of {', '.join(map(repr, of or ()))}"
                raise ArgumentError(name, names, some if of else "None, or a tuple of names")
        for field in dataclasses.fields(self):
            if field.type is bool and not isinstance(getattr(self, field.name), bool):
                raise ArgumentError(field.name, getattr(self, field.name), "True or False")

    @property
    def stopping(self) -> tuple[str, ...]:
        """Which of llr, selective, full and native may end its runs."""
        if self.native == "only":
            return ("native",)
        return KNOWN_STOPPING if self.native else STOPS

    def defined_for(self, problem: str) -> bool:
        """Whether the rule is defined for the problem of this name."""
        return self.problems is None or problem in self.problems


class Rarely:
    """The third argument of a `choose(view, state, rarely)`, for work that few choices need.

    ::

        state = rarely(due, lambda: solved(view, state), state)

    The engine calls `choose` twice. The first call, with `asks` [] bool, leaves all such work out,
    and is right for runs in which no `go` has held: `asks` notes where one has. The second serves
    the others, a group at a time.
    """

    def __init__(self, asks: Array | None = None):
        self.asks, self.called = asks, False

    def __call__(self, go: Array, work: Callable[[], Tree], otherwise: Tree) -> Tree:
        """work() where `go` [] bool holds, elsewhere `otherwise`, a pytree of arrays.

        `work` returns a pytree like it, and is called for all runs beside one where `go` holds.

        Raises:
            TypeError: `go` is no bool, or the pytrees are unlike.
        """
        if jnp.result_type(go) != jnp.bool_:
            dtype = jnp.result_type(go)
            raise TypeError(f"the first argument of rarely has dtype {dtype}, not bool")
        if self.asks is not None:
            self.asks, self.called = self.asks | go, True
            return otherwise

        def chosen():
            done = work()
            given, returned = map(jax.tree.structure, (otherwise, done))
            if given != returned:
                raise TypeError(f"work of rarely returns {returned}, otherwise is {given}")
            return where(go, done, otherwise)

        return jax.lax.cond(jnp.any(go), chosen, lambda: jax.tree.map(jnp.asarray, otherwise))


class SamplingRule:
    """The contract of a sampling rule: a frozen dataclass of settings with pure methods.

    It must define `choose`, and `init` if it has a state. They may be written for one run, and are
    then called under `jax.vmap`. `traits` declares what it needs and allows.
    """

    traits: ClassVar[Traits] = Traits()
    rare: ClassVar[bool] = False  # set here: whether `choose` takes a third argument, `rarely`
    native_test: ClassVar[str] = ""
    """What `native` compares at level beta, as `jaxelim.contracts.proofs` names it; or a sentence:
    why no threshold's proof covers it. Empty: nothing is known."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        own, annotations = vars(cls), vars(cls).get("__annotations__", {})
        for name in sorted({field.name for field in dataclasses.fields(Traits)} & set(own)):
            plain = isinstance(own[name], bool | int | float | str | tuple)
            if plain and "ClassVar" in str(annotations.get(name, "ClassVar")):
                raise ArgumentError(name, own[name], f"traits = Traits({name}=...)")
        # Beside self, view and state.
        taken = inspect.signature(cls.choose).parameters.values()
        asked = [p.kind is not p.VAR_POSITIONAL and p.default is p.empty for p in taken]
        cls.rare = sum(asked) > 3

    def needs(self, family: Family, problem: Problem) -> tuple[str, ...]:
        """Host: names of the family's methods that the rule, with its settings, calls."""
        return ()

    def prepare(self, instance: Any, problem: Problem, ridge: float | None) -> Tree:
        """Host: numbers in NumPy arrays, [instance, ..] for a batch, for `view.prepared`."""
        return ()

    def caution(
        self, instance: Any, threshold: Any, times: Any, levels: Any, delta: float
    ) -> str | None:
        """Host: why a test of `levels` [n] at `times` [n] may hardly ever end runs; or None."""
        return None

    def static_part(self) -> "SamplingRule":
        """The rule without its arrays, which `prepare` returns; equal ones share a program."""
        return self

    def init(self, view: View) -> Tree:
        """The rule's state after the initial pulls, a pytree of arrays."""
        return ()

    def choose(self, view: View, state: Tree, *rarely: Rarely) -> tuple[Array, Tree]:
        """(arm, state): an integer [] from 0 to K - 1, a state like `init`'s; see `Rarely`."""
        raise undefined(self, "choose(view, state)")

    def work(self, view: View, state: Tree) -> Array | tuple[Array, Array]:
        """How many pieces this next state's choice tested, []; or a pair, with what it solved."""
        return view.active_count if "pieces" in self.traits.reads else jnp.zeros_like(view.t)

    def native(self, view: View, state: Tree) -> tuple[Array, Array] | None:
        """(stops, answer) of this next state's native test: [] bool, bools like `view.public`.

        None: there is no test.
        """
        return None


class StoppingRule:
    """The contract of a stopping rule, lanes last; the first `observe` sees the t of `start`."""

    name: ClassVar[str] = ""
    eliminates: ClassVar[bool] = False
    shared: ClassVar[bool] = True  # as elimination at sampling: uses the stopping rule's set
    full: ClassVar[bool] = False  # tests the pieces of all answers
    native: ClassVar[bool] = False  # the sampling rule's own test ends runs

    def start(self, seen: Snapshot, pair_times: bool = False) -> Tree:
        """The state before the first check, arrays with lanes last."""
        return ()

    def observe(self, seen: Snapshot, state: Tree, beta: Array) -> tuple[Tree, Array, Array]:
        """(state, stops, tests): one like `start`'s, bools like beta, integers: pieces tested."""
        raise undefined(self, "observe(seen, state, beta)")

    def answer(self, seen: Snapshot, state: Tree) -> Array:
        """The answer, like `seen.public`, of a stop in this state; asked once some run is over."""
        return seen.public


__all__ = [
    "Estimate", "Evidence", "Family", "HalfSpaces", "Interval", "Pairs", "PieceSet", "Pieces",
    "Problem", "Rarely", "SamplingRule", "Snapshot", "Source", "Statistics", "StoppingRule",
    "Traits", "View",
]  # fmt: skip
