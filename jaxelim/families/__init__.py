"""Reward families, one file each."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from jaxelim.contracts import Family
from jaxelim.errors import ArgumentError, UnknownNameError
from jaxelim.families.bernoulli import Bernoulli
from jaxelim.families.exponential import Exponential
from jaxelim.families.gaussian import Gaussian
from jaxelim.families.gaussian_by_arm import GaussianByArm
from jaxelim.families.logistic import Logistic
from jaxelim.families.one_parameter import OneParameter
from jaxelim.families.poisson import Poisson
from jaxelim.families.recorded import Recorded
from jaxelim.families.unknown_variance import GaussianUnknownVariance

KINDS = (
    Gaussian,
    Bernoulli,
    Poisson,
    Exponential,
    GaussianByArm,
    GaussianUnknownVariance,
    Logistic,
)


def known() -> dict[str, type[Family]]:
    """Families by name."""
    return {kind.name: kind for kind in KINDS}


def made(kind: Any, settings: Mapping[str, Any]) -> Any:
    """A family, or another dataclass, with these settings.

    Raises:
        UnknownNameError: it has no setting of such a name.
        ArgumentError: a setting is missing, or the family refuses it.
    """
    fields = {one.name: one for one in dataclasses.fields(kind) if one.init}
    for name in settings:
        if name not in fields:
            raise UnknownNameError("setting", name, list(fields))
    for name, one in fields.items():
        needed = one.default is dataclasses.MISSING and one.default_factory is dataclasses.MISSING
        if needed and name not in settings:
            raise ArgumentError(name, None, f"a value: {kind.__name__} has no default for it")
    return kind(**settings)


def settings_of(family: Family) -> dict[str, Any] | None:
    """The settings that are not at their defaults, by name; None for a family not in `known`."""
    kind: Any = known().get(family.name)
    if type(family) is not kind:
        return None
    fields = ((one, getattr(family, one.name)) for one in dataclasses.fields(kind) if one.init)
    return {one.name: value for one, value in fields if value != one.default}


__all__ = [
    "Bernoulli",
    "Exponential",
    "Gaussian",
    "GaussianByArm",
    "GaussianUnknownVariance",
    "Logistic",
    "OneParameter",
    "Poisson",
    "Recorded",
    "known",
    "made",
    "settings_of",
]
