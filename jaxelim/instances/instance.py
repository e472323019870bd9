"""Bandit instances: the features of the arms and the unknown parameter, or a batch of these.

Axis letters: K arms, d dimensions, I instances of a batch.
"""

import dataclasses
import json
import os
import re
from collections.abc import Callable, Iterator
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from jaxelim import checks
from jaxelim.contracts import Family, Source
from jaxelim.errors import ArgumentError, UnsupportedError
from jaxelim.families import NAMES, SOURCES
from jaxelim.files import writable_file, write_whole
from jaxelim.instances.arms import Arms, family_of, features
from jaxelim.returned import check_settings
from jaxelim.text import text_of

_NEAR = 1e-9  # how far means may be from those of a source, relative to the largest
_FEW_NUMBERS = 24  # repr shows arms with at most so many entries in full


@dataclasses.dataclass(frozen=True, init=False, eq=False, repr=False)
class Instance(Arms):
    """A bandit instance: arm k has mean mu_k = phi_k . theta and rewards of a family or a source.

    A leading axis on both arrays makes a batch of I instances. A leading axis on theta
    alone makes a batch with the same arms. Instances are immutable. They are equal if
    arms, theta, family and source are, and both or neither are batches; the name is a label
    and does not count.

    Args:
        arms: the features phi_k in rows, [K, d] or [I, K, d]; K >= 1, d >= 1.
        theta: the parameter, [d] or [I, d]. Only the oracle reads it to sample.
        noise_std: the standard deviation of Gaussian noise, > 0, one number for the
            whole batch: short for `family=Gaussian(noise_std)`.
        name: a label for tables and figures.
        family: of the evidence, and of the rewards without a source; None: Gaussian(1.0).
        source: what rewards are drawn from, such as `Recorded`; None: the family, at the
            arms' means.
        costs: [K] what a pull of each arm costs, for the whole batch; see `Arms`.

    Raises:
        ArgumentError: an argument is not finite real numbers of these shapes, or so
            large that means, LLRs or the arms' squared norms would overflow. Or means
            are out of the family's range or not the source's, or both noise_std and family are
            given, or the source has rewards that the family cannot have.
        UnsupportedError: the family is not defined for these arms.

    Example:
        >>> Instance([[1, 0], [0, 1]], [1.0, 0.5]).means
        array([1. , 0.5])
    """

    theta: np.ndarray
    name: str | None

    def __init__(
        self,
        arms: ArrayLike,
        theta: ArrayLike,
        noise_std: float | None = None,
        name: str | None = None,
        family: Family | None = None,
        *,
        source: Source | None = None,
        costs: ArrayLike | None = None,
    ):
        phi = features(arms, ndim=(2, 3))
        parameter = checks.real_array("theta", theta, ndim=(1, 2))
        d = phi.shape[-1]
        if phi.ndim == 2 == parameter.ndim and len(parameter) and parameter.shape[1] == d:
            phi = np.array(np.broadcast_to(phi, (parameter.shape[0], *phi.shape)))
        if parameter.shape != (*phi.shape[:-2], d):
            either = f"({d},), or (instances, {d})" if phi.ndim == 2 else f"({len(phi)}, {d})"
            note = f"its shape is {parameter.shape}"
            raise ArgumentError("theta", theta, f"shape {either}, to match arms", note)
        family = family_of(noise_std, family)
        _refuse_unstorable(name)
        self._settle(costs, arms=phi, theta=parameter, name=name, family=family,
                     source=_known(source))  # fmt: skip
        self._refuse_overflow()
        family.check(self)
        if source is not None:
            self._refuse_other_means(source)
            source.check(self)

    @staticmethod
    def unstructured(
        means: ArrayLike | None = None,
        family: Family | None = None,
        *,
        source: Source | None = None,
        noise_std: float | None = None,
        name: str | None = None,
        costs: ArrayLike | None = None,
    ) -> "Instance":
        """An instance with independent arms: mu_k = means[k], with the canonical basis as arms.

        Args:
            means: [K], or [I, K] for a batch; K >= 1. None: those of the source.
            family, source, noise_std, name, costs: as for `Instance`.

        Raises:
            ArgumentError, UnsupportedError: as for `Instance`.

        Example:
            >>> Instance.unstructured([0.3, 0.2], Bernoulli()).K
            2
        """
        if means is None and (known := _known(source)) is not None:
            means = known.means
        theta = checks.real_array("means", means, ndim=(1, 2))
        if 0 in theta.shape:
            allowed = "[K] or [instances, K] with K >= 1 and at least one instance"
            raise ArgumentError("means", means, allowed, f"its shape is {theta.shape}")
        try:
            theta = family.link(theta) if isinstance(family, Family) else theta
            basis = np.eye(theta.shape[-1])
            return Instance(basis, theta, noise_std, name, family, source=source, costs=costs)
        except ArgumentError as error:
            if error.argument != "theta":
                raise
            raise ArgumentError("means", means, error.allowed, error.note) from None

    def _refuse_overflow(self) -> None:
        scale = self.family.scale
        with np.errstate(over="ignore", invalid="ignore"):
            finite = np.isfinite(self.means).all()
            # A run computes with theta/noise_std and unit noise, and its LLRs square those means.
            scaled = self.theta / scale, (self.means / scale) ** 2
        if not all(np.isfinite(numbers).all() for numbers in scaled):
            argument = "noise_std" if finite and scale < 1 and self.family.design else "theta"
            allowed = "numbers for which means, theta/noise_std and (means/noise_std)^2 do not "
            raise ArgumentError(argument, getattr(self, argument), allowed + "overflow float64")

    def _refuse_other_means(self, source: Source) -> None:
        own = source.means
        if own is None:
            return
        if self.batched or self.K != len(own):
            allowed = f"one instance of {len(own)} arms for this source"
            raise ArgumentError("source", source, allowed, f"its means are {self.means.shape}")
        if np.abs(self.means - own).max() > _NEAR * np.abs(own).max():
            allowed = f"the means of the source, {own.tolist()}: without `means` they are taken"
            raise ArgumentError("theta", self.means, allowed)

    @property
    def truth(self) -> "Instance":
        """This instance."""
        return self

    @cached_property
    def means(self) -> np.ndarray:
        """The means phi_k . theta, float64 [K] or [I, K], read-only.

        Of logistic rewards 1/(1 + exp(-phi_k . theta)).
        """
        # A matrix product might sum in an order that depends on the size of the batch.
        means = self.family.mean(np.sum(self.arms * self.theta[..., None, :], axis=-1))
        means.setflags(write=False)
        return means

    @property
    def unbatched(self) -> list["Instance"]:
        """The instances of the batch, or this one, as a list."""
        return list(self) if self.batched else [self]

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator["Instance"]:
        return (self[i] for i in range(self.size))

    def __getitem__(self, index: int | slice) -> "Instance":
        """Instance `index` of a batch; for a slice a batch of the selected instances.

        Raises:
            ArgumentError: this is no batch, the index is neither an integer nor a
                slice, or the slice is empty.
            IndexError: there is no such instance.
        """
        if not self.batched:
            allowed = "none at all, as this is a single instance and not a batch"
            raise ArgumentError("index", index, allowed)
        if isinstance(index, slice):
            if not range(*index.indices(self.size)):
                allowed = f"a slice that selects some of the {self.size} instances"
                raise ArgumentError("index", index, allowed)
            return self.replace(arms=self.arms[index], theta=self.theta[index])
        i = checks.integer("index", index)
        if not -self.size <= i < self.size:
            allowed = f"an integer from {-self.size} to {self.size - 1}"
            raise IndexError(f"index: got {i}; allowed: {allowed}")
        name = None if self.name is None else f"{self.name}[{i % self.size}]"
        return self.replace(arms=self.arms[i], theta=self.theta[i], name=name)

    def replace(self, **changes: Any) -> "Instance":
        """An `Instance` with other arguments than this one's, checked again."""
        names = (one.name for one in dataclasses.fields(Instance) if one.init)
        return Instance(**{name: getattr(self, name) for name in names} | changes)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Instance):
            return NotImplemented
        same: Callable[[Any, Any], bool] = np.array_equal  # None is equal to None alone
        return (self.family, self.source) == (other.family, other.source) and all(
            same(getattr(self, name), getattr(other, name)) for name in ("arms", "theta", "costs"))

    def __hash__(self) -> int:
        # + 0.0 converts -0.0 to 0.0, which is equal but has other bytes.
        numbers = [(x + 0.0).tobytes() for x in (self.arms, self.theta)]
        return hash((self.arms.shape, *numbers, self.family, self.source))

    def __repr__(self) -> str:
        """The call that makes this instance; for long arrays with their sizes in their place."""
        few = self.arms.size <= _FEW_NUMBERS
        arrays = {"arms": self.arms, "theta": self.theta}
        fields = {name: x.tolist() if few else f"<{'x'.join(map(str, x.shape))}>"
                  for name, x in arrays.items()} | self.family_settings  # fmt: skip
        fields |= {} if self.name is None else {"name": repr(self.name)}
        return f"Instance({', '.join(f'{name}={value}' for name, value in fields.items())})"

    def __reduce__(self):
        # Unpickle by the constructor, as a pickled array loses its read-only flag.
        made = partial(Instance, source=self.source, costs=self.costs)
        return made, (self.arms, self.theta, None, self.name, self.family)

    def to_json(self, path: str | os.PathLike[str], items: ArrayLike | None = None) -> None:
        """Write the instance or batch to a file, which `load_instance` reads back exactly.

        Replaces an older file. The file is complete or absent, as those of results.

        Args:
            path: the file.
            items: [P, d], those of `BestArm(items=..)`, which `load_items` reads back.

        Raises:
            ArgumentError: items are no finite real numbers of this shape, or the path is a
                folder, or in one that does not exist or takes no file.
            UnsupportedError: a family or source that a file cannot name, such as one's own.
            StoreError: the file cannot be written, such as on a full disk.
        """
        for name, one, known in (("family", self.family, NAMES), ("source", self.source, SOURCES)):
            if one is not None and type(one) not in known.values():
                allowed = f"one that load_instance knows: {', '.join(known)}"
                raise UnsupportedError(name, one, allowed)
        written = f' "arms": [\n{_rows(self.arms)}]'
        if items is not None:
            features = checks.real_array("items", items, shape=(None, self.d))
            written += f',\n "items": [\n{_rows(features)}]'
        costs = {} if self.costs is None else {"costs": self.costs.tolist()}
        own = {"name": self.name, **self.rewards(text_of), **costs}
        head = json.dumps(own)[1:-1]
        text = f'{{{head},\n "theta": {json.dumps(self.theta.tolist())},\n{written}}}\n'
        write_whole(writable_file("path", path), text.encode())


def _known(source: Any) -> Source | None:
    if source is not None and not isinstance(source, Source):
        raise ArgumentError("source", source, "None, or a source such as Recorded(stacks)")
    if source is not None:
        check_settings(source)
    return source


def _rows(array: np.ndarray) -> str:
    """The entries of an array along its first axis as JSON, one a line."""
    return ",\n".join("  " + json.dumps(row) for row in array.tolist())


def _refuse_unstorable(name: object) -> None:
    """Refuse names that files cannot store: NetCDF has no NUL, UTF-8 no lone surrogates."""
    bad = re.search("[\0\ud800-\udfff]", name) if isinstance(name, str) else None
    if bad or not isinstance(name, str | None):
        note = f"{bad[0]!r} at [{bad.start()}]" if bad else ""
        raise ArgumentError("name", name, "a string without NUL and lone surrogates, or None", note)
