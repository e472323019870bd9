"""Reward families, one file each."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from jaxelim.contracts import Family
from jaxelim.errors import ArgumentError, UnknownNameError
from jaxelim.families.bernoulli import Bernoulli
from jaxelim.families.bounded import Bounded
from jaxelim.families.exponential import Exponential
from jaxelim.families.gaussian import Gaussian
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
    GaussianUnknownVariance,
    Logistic,
    Bounded,
)
_BY_ARM = "gaussian-by-arm"


def known() -> dict[str, type[Family]]:
    """Families by name."""
    return {**{kind().name: kind for kind in KINDS}, _BY_ARM: Gaussian}


def named(name: str, settings: Mapping[str, Any]) -> Any:
    """The family of a name in `known` with these settings.

    Raises:
        UnknownNameError, ArgumentError: as `made`.
    """
    if name == _BY_ARM and "std" not in settings:
        raise ArgumentError("std", None, f"a value: {name} has no default for it")
    return made(known()[name], settings)


def made(kind: Any, settings: Mapping[str, Any]) -> Any:
    """A family, or another dataclass, with these settings.

    Raises:
        UnknownNameError: it has no setting of such a name.
        ArgumentError: a setting is missing, or the family refuses it.
    """
    fields = {field.name: field for field in dataclasses.fields(kind) if field.init}
    for name in settings:
        if name not in fields:
            raise UnknownNameError("setting", name, list(fields))
    for name, field in fields.items():
        defaults = {field.default, field.default_factory}
        if defaults == {dataclasses.MISSING} and name not in settings:
            raise ArgumentError(name, None, f"a value: {kind.__name__} has no default for it")
    return kind(**settings)


def settings_of(family: Family) -> dict[str, Any] | None:
    """The settings that are not at their defaults, by name; None for a family not in `known`."""
    kind: Any = known().get(family.name)
    if type(family) is not kind:
        return None
    fields = [field for field in dataclasses.fields(kind) if field.init]
    values = {field.name: getattr(family, field.name) for field in fields}
    return {
        field.name: values[field.name] for field in fields if values[field.name] != field.default
    }


__all__ = [
    "Bernoulli",
    "Bounded",
    "Exponential",
    "Gaussian",
    "GaussianUnknownVariance",
    "Logistic",
    "OneParameter",
    "Poisson",
    "Recorded",
    "known",
    "made",
    "named",
    "settings_of",
]
