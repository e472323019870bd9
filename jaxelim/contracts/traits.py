"""Traits: the declaration of what a sampling rule needs and allows."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from jaxelim import checks
from jaxelim.errors import ArgumentError

_PROBLEMS = ("best-arm", "best-item", "top-m", "thresholding", "half-spaces")
_STRUCTURES = ("linear", "unstructured")
KNOWN_STOPPING = ("llr", "selective", "full", "native")
"""The stopping rules that traits allow or refuse; any other is allowed."""


@dataclasses.dataclass(frozen=True)
class Traits:
    """What a rule is defined for, what it reads, and how the engine runs it.

    Calls that the traits do not allow are refused before anything compiles.

    Args:
        problems: names of problems, by their `name`. None: any.
        structures: "linear", "unstructured".
        families: names of reward families. None: any. ("gaussian",) is linear Gaussian
            rewards of one variance, with `view.linear`.
        family_methods: names of the methods of `Family` that the rule calls, such as
            "divergence" or "interval"; a family without one of them is refused.
        stopping: which of llr, selective, full and native may end its runs; "native"
            if it has a test. Stopping rules of other names are always allowed.
        elimination: whether sampling may be restricted to the active pieces.
        slack: whether the rule is defined for `BestArm(epsilon=)` with epsilon above 0,
            where pieces have slack and several answers may be right.
        always_native: the native test ends a run under every stopping rule.
        uses_delta: choices depend on delta or beta, so each delta has its
            own trajectory.
        uses_rewards: reads `view.reward_sums`.
        uses_chance: reads `view.chance`, a uniform number from (seed, run, t).
        uses_key: reads `view.key`, a key of `jax.random` from (seed, run, t).
        uses_truth: `prepare` reads the instance's theta. A live run, which does not know
            it, refuses the rule.
        tests_pieces: tests the active pieces at every pull.
        counts_solves: defines `solves`, the number of solves of each choice.
        lanes_last: the methods are also right with one more axis, of lanes, at the end,
            and no lane reads another. Only `jaxelim.testing.check_sampling_rule`
            compares both forms.
        one_lane: a lane alone makes the same choices as one of sixteen, to the last
            digit, so that runs may be taken one after the other: the last ones of a
            queue, or all (see `SamplingRule.in_turn`).
        basis_free: choices are the same in any coordinates of R^d, as those are that are
            made of margins and of products phi_i' V^-1 phi_k. Linearly independent arms
            without a ridge then are computed as an unstructured instance, where choices
            that tie on paper tie to the last digit. Nothing checks it.
        one_kernel: structures on which the steps of all lanes are compiled into one
            kernel, for a rule without `fast`. Its choices must be those of many kernels,
            to the last digit. Steps with an operation that needs a library stay in many.
        batch: how many waiting lanes one call of `choose` serves, for a rule
            with `fast`.
        patience: the share of live lanes that must wait before `choose` is called.
        source: the rule's paper, for tables.
        name: on the command line. Empty: the class's name in lower case,
            words hyphenated.
        aliases: other names on the command line.

    Raises:
        ArgumentError: a name is not known, a value has the wrong type, or a number is
            out of range.
    """

    problems: tuple[str, ...] | None = None
    structures: tuple[str, ...] = _STRUCTURES
    families: tuple[str, ...] | None = ("gaussian",)
    family_methods: tuple[str, ...] = ()
    stopping: tuple[str, ...] = ("llr", "selective", "full")
    elimination: bool = True
    slack: bool = False
    always_native: bool = False
    uses_delta: bool = True
    uses_rewards: bool = True
    uses_chance: bool = False
    uses_key: bool = False
    uses_truth: bool = False
    tests_pieces: bool = True
    counts_solves: bool = False
    lanes_last: bool = False
    one_lane: bool = False
    basis_free: bool = False
    one_kernel: tuple[str, ...] = ()
    batch: int = 16
    patience: float = 0.0
    source: str = ""
    name: str = ""
    aliases: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name, known in (("structures", _STRUCTURES), ("stopping", KNOWN_STOPPING)):
            given = getattr(self, name)
            if not isinstance(given, tuple) or not given or not set(given) <= set(known):
                raise ArgumentError(
                    name, given, f"a tuple of some of {', '.join(map(repr, known))}"
                )
        if not isinstance(self.one_kernel, tuple) or not set(self.one_kernel) <= set(_STRUCTURES):
            allowed = f"a tuple of some of {', '.join(map(repr, _STRUCTURES))}, or ()"
            raise ArgumentError("one_kernel", self.one_kernel, allowed)
        for name in ("problems", "families"):
            given = getattr(self, name)
            if given is not None and not (
                isinstance(given, tuple) and given and all(isinstance(one, str) for one in given)
            ):
                raise ArgumentError(name, given, "None, or a tuple of names")
        methods = self.family_methods
        if not isinstance(methods, tuple) or not all(isinstance(one, str) for one in methods):
            raise ArgumentError("family_methods", methods, "a tuple of names of methods")
        for field in dataclasses.fields(self):
            if field.type is bool and not isinstance(getattr(self, field.name), bool):
                raise ArgumentError(field.name, getattr(self, field.name), "True or False")
        checks.integer("batch", self.batch, low=1)
        checks.real("patience", self.patience, low=0, high=1)

    def defined_for(self, problem: str) -> bool:
        """Whether the rule is defined for the problem of this name."""
        return self.problems is None or problem in self.problems


_NAMES = {field.name for field in dataclasses.fields(Traits)}


def refuse_stray(members: Mapping[str, Any]) -> None:
    """Refuse traits that a rule's class has as plain attributes, which nothing reads.

    Raises:
        ArgumentError: there is such an attribute that is no field of the rule.
    """
    annotations = members.get("__annotations__", {})
    for name in sorted(_NAMES & set(members)):
        plain = isinstance(members[name], bool | int | float | str | tuple)
        if plain and "ClassVar" in str(annotations.get(name, "ClassVar")):
            raise ArgumentError(name, members[name], f"traits = Traits({name}=...)")
