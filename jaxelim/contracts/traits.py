"""What a sampling rule declares, its traits; and its rare work, stated where it is used."""

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from jaxelim.contracts.proofs import STOPS
from jaxelim.errors import ArgumentError
from jaxelim.lanes import Tree, where

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
        for name, known in (("structures", _STRUCTURES), ("reads", READS)):
            names = getattr(self, name)
            some = isinstance(names, tuple) and all(one in known for one in names)
            if not some or not (names or name == "reads"):
                allowed = f"a tuple of some of {', '.join(map(repr, known))}"
                raise ArgumentError(name, names, allowed)
        for name in ("problems", "families"):
            names = getattr(self, name)
            some = isinstance(names, tuple) and all(isinstance(one, str) for one in names)
            if names is not None and not (names and some):
                raise ArgumentError(name, names, "None, or a tuple of names")
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


def refuse_stray(members: Mapping[str, Any]) -> None:
    """Refuse what a rule's class has and nothing reads: traits as plain attributes, `in_turn`."""
    if callable(members.get("in_turn")):
        allowed = "no such method: the engine finds whether runs go one after the other"
        raise ArgumentError("in_turn", members["in_turn"], allowed)
    annotations = members.get("__annotations__", {})
    for name in sorted({field.name for field in dataclasses.fields(Traits)} & set(members)):
        plain = isinstance(members[name], bool | int | float | str | tuple)
        if plain and "ClassVar" in str(annotations.get(name, "ClassVar")):
            raise ArgumentError(name, members[name], f"traits = Traits({name}=...)")


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


def takes_rarely(choose: Callable) -> bool:
    """Whether a `choose` has a parameter beside self, view and state."""
    parameters = inspect.signature(choose).parameters.values()
    return sum(p.kind is not p.VAR_POSITIONAL and p.default is p.empty for p in parameters) > 3
