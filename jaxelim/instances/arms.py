"""Arms before any truth about them: their features, their names and the family of rewards.

Axis letters: K arms, d dimensions, I instances of a batch.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from jaxelim import checks
from jaxelim.contracts import Family, Source
from jaxelim.errors import ArgumentError, UnsupportedError
from jaxelim.families import Gaussian
from jaxelim.families.sources import Stack
from jaxelim.returned import check_settings

if TYPE_CHECKING:
    from jaxelim.instances.instance import Instance


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Arms:
    """The arms of a run: all that is known before a reward. `Instance` adds the truth.

    Args:
        arms: the features phi_k in rows, [K, d]; K >= 1, d >= 1. For independent arms their
            number K, or K different names; for features with names a mapping of both.
        family: of the rewards; None: Gaussian(1.0).
        names: [K] different names; None: those in `arms`, else arms are numbers.
        costs: [K] what a pull of each arm costs, above 0, in any unit of money or time;
            None: samples are counted.
        most: how many arms are ever in, where some join a live run or leave it; None: none does.
        stack: how many rewards each arm has, which come without replacement: a number for all
            arms, or [K]; None: they do not end.

    Raises:
        ArgumentError: an argument is not finite real numbers of this shape, or so large
            that the squared norms would overflow; or costs are not from 1e-6 to 1e6 times
            one another.
        UnsupportedError: the family is not defined for these arms.
    """

    arms: np.ndarray
    family: Family
    source: Source | None  # an instance may have one, or a live run's stack
    costs: np.ndarray | None
    names: tuple[str, ...] | None = field(init=False, default=None)  # an instance has none
    most: int | None = field(init=False, default=None)
    K: int = field(init=False)
    """The number of arms."""
    d: int = field(init=False)
    """The dimension of the features."""
    batched: bool = field(init=False)
    """Whether this is a batch, possibly of one instance."""
    size: int = field(init=False)
    """The number of instances; 1 if this is no batch."""
    truth: ClassVar["Instance | None"] = None
    """The instance, if these are the arms of one; None: nobody knows theta."""

    def __init__(
        self,
        arms: Any,
        family: Family | None = None,
        names: tuple[str, ...] | None = None,
        *,
        costs: ArrayLike | None = None,
        most: Any = None,
        stack: Any = None,
    ):
        allowed = "features [K, d], a number K >= 1, K different names, or a mapping of both"
        phi: Any = arms
        if isinstance(arms, int | np.integer) and not isinstance(arms, bool):
            phi = np.eye(checks.integer("arms", arms, low=1))
        elif isinstance(arms, Mapping):
            names, phi = tuple(arms), list(arms.values())
        elif isinstance(arms, str | bytes):
            raise ArgumentError("arms", arms, allowed)
        elif isinstance(arms, Sequence) and any(isinstance(name, str) for name in arms):
            names, phi = tuple(arms), np.eye(len(arms))
        phi = features(phi, ndim=2)
        if names is not None and not (all(map(is_name, names)) and len(set(names)) == len(names)):
            raise ArgumentError("arms", arms, allowed)
        most = most if most is None else checks.integer("most_arms", most, low=len(phi), high=_MOST)
        rewards = family_of(None, family)
        source = None if stack is None else _stack(stack, len(phi), rewards)
        self._settle(costs, arms=phi, family=rewards, names=names, source=source, most=most)
        if source is not None and self.structure != "unstructured":
            raise UnsupportedError("stack", stack, "None for arms with features")

    def _settle(self, costs: Any, **fields: Any) -> None:
        """Set the fields; refuse overflow, and a family that is not defined for these arms."""
        phi, family = fields["arms"], fields["family"]
        *lead, K, d = phi.shape
        fields |= dict(K=K, d=d, batched=bool(lead), size=lead[0] if lead else 1)
        fields["costs"] = _costs(costs, K)
        for name, value in fields.items():
            if isinstance(value, np.ndarray):
                value.setflags(write=False)
            object.__setattr__(self, name, value)
        with np.errstate(over="ignore"):
            if not np.isfinite(np.sum(phi**2, axis=-1)).all():
                allowed = "features whose squared norms do not overflow float64"
                raise ArgumentError("arms", phi, allowed)
        if self.structure not in family.structures:
            allowed = f"a family for {self.structure} arms: {family!r} is not defined for them"
            if self.structure == "linear":
                allowed += "; Gaussian() is, and independent arms are Instance.unstructured(means)"
            raise UnsupportedError("family", family, allowed)
        family.check_arms(self)

    @cached_property
    def structure(self) -> str:
        """'unstructured' if the arms of all instances are the canonical basis, else 'linear'."""
        unstructured = self.K == self.d and bool((self.arms == np.eye(self.K)).all())
        return "unstructured" if unstructured else "linear"

    @property
    def noise_std(self) -> float:
        """The standard deviation of Gaussian rewards.

        Raises:
            UnsupportedError: rewards of another family.
        """
        if not self.family.design:
            allowed = "gaussian: no other family has a noise_std"
            raise UnsupportedError("family", self.family, allowed)
        return self.family.scale

    def rewards(self, text: Callable[[str, Any], str]) -> dict[str, object]:
        """The family, or the standard deviation that it stands for, and the source, as texts."""
        source = {} if self.source is None else {"source": text("source", self.source)}
        if type(self.family) is Gaussian and not self.family.by_arm:
            return {"noise_std": self.family.std, **source}
        return {"family": text("family", self.family), **source}

    @property
    def family_settings(self) -> dict[str, object]:
        """The entries of family and source in a result's settings, and the costs."""
        costs = {} if self.costs is None else {"costs": repr(self.costs.tolist())}
        return {**self.rewards(lambda _, one: repr(one)), **costs}

    @property
    def law(self) -> str:
        """`Family.law` of the rewards, which are the source's if there is one."""
        return self.family.stated_law() if self.source is None else self.source.law(self.family)

    def index(self, arm: Any) -> int:
        """The index of an arm, by its name or its number; by name where arms join and leave.

        Raises:
            ArgumentError: it is no arm.
        """
        if self.names is not None and (isinstance(arm, str) or self.most):  # places change there
            return self.names.index(checks.choice("arm", arm, self.names))
        return checks.integer("arm", arm, low=0, high=self.K - 1)

    def label(self, k: int) -> Any:
        """What the caller calls arm k: its name, or its number."""
        return int(k) if self.names is None else self.names[k]


def features(arms: ArrayLike, ndim: Any) -> np.ndarray:
    """The features of arms, checked: [K, d], or [I, K, d] where `ndim` allows batches."""
    phi = checks.real_array("arms", arms, ndim=ndim)
    if 0 in phi.shape:
        allowed = "features [K, d] or [instances, K, d] with K >= 1, d >= 1 and at least one "
        allowed += "instance"
        raise ArgumentError("arms", arms, allowed, f"its shape is {phi.shape}")
    return phi


def family_of(noise_std: float | None, family: Family | None) -> Family:
    """The family of an instance's two arguments, of which one may be given."""
    if family is None:
        std = 1.0 if noise_std is None else noise_std
        return Gaussian(checks.real("noise_std", std, low=0, open=True))
    if not isinstance(family, Family):
        raise ArgumentError("family", family, "a reward family such as Gaussian() or Bernoulli()")
    if noise_std is not None:
        allowed = f"None with family={family!r}: noise_std is short for Gaussian(noise_std)"
        raise ArgumentError("noise_std", noise_std, allowed)
    check_settings(family)
    return family


_MOST = 10**6
"""Most arms that are ever in."""
_RATIO = 1e6
"""Largest ratio of two costs."""


def _costs(costs: Any, arms: int) -> np.ndarray | None:
    """The costs of so many arms, checked; None: there are none."""
    if costs is None:
        return None
    array = checks.real_array("costs", costs, shape=(arms,))
    if array.min() <= 0 or array.max() > _RATIO * array.min():
        allowed = f"{arms} numbers above 0, the largest at most {_RATIO:g} times the least"
        raise ArgumentError("costs", costs, allowed)
    return array


def _stack(stack: Any, arms: int, family: Family) -> Stack:
    """The stacks of so many arms, checked."""
    given = list(stack) if isinstance(stack, Sequence | np.ndarray) else [stack] * arms
    sizes = tuple(checks.integer("stack", one, low=2, high=2**31 - 1) for one in given)
    most = family.items
    if len(sizes) != arms or (most is not None and (max(sizes) > most or len(set(sizes)) > 1)):
        allowed = f"a number, or {arms} of them"
        if most is not None:
            allowed = f"a number of at most {most}, the items that {family!r} keeps"
        raise ArgumentError("stack", stack, allowed)
    return Stack(sizes)


def is_name(name: Any) -> bool:
    """Whether an arm may have this name."""
    return isinstance(name, str) and name.isprintable() and bool(name.strip())
