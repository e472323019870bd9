"""Reward families, a file each; Gaussian rewards of linear arms have several."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from jaxelim import checks
from jaxelim.contracts import Family, Source
from jaxelim.errors import ArgumentError, unknown_name
from jaxelim.families.bernoulli import Bernoulli
from jaxelim.families.bounded import Bounded
from jaxelim.families.exponential import Exponential
from jaxelim.families.gaussian import Gaussian
from jaxelim.families.logistic import Logistic
from jaxelim.families.one_parameter import OneParameter
from jaxelim.families.poisson import Poisson
from jaxelim.families.recorded import Recorded
from jaxelim.families.sources import Betas, Normal, Points
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
SOURCES: dict[str, Any] = {kind.name: kind for kind in (Recorded, Points, Betas, Normal)}
"""Sources of rewards by name."""
_BY_ARM = "gaussian-by-arm"


def known() -> dict[str, type[Family]]:
    """Families by name."""
    return {**{kind().name: kind for kind in KINDS}, _BY_ARM: Gaussian}


def named(name: str, settings: Mapping[str, Any], argument: str = "family") -> Any:
    """The family of a name in `known`, or the "source" of one in `SOURCES`, with these settings.

    The first settings may follow the name, in JSON or plain words, as in "bounded:0,5".

    Raises:
        ArgumentError: there is no such family, source or setting.
        ArgumentError: as `made`, or a setting is given twice.
    """
    name, _, text = name.partition(":")
    kinds: Any = SOURCES if argument == "source" else known()
    kind: Any = kinds[checks.choice(argument, name, kinds)]
    if text:
        fields = [field.name for field in dataclasses.fields(kind) if field.init]
        words = text.split(",")
        first = dict(zip(fields, map(checks.written, words), strict=False))
        if len(words) > len(fields) or first.keys() & settings.keys():
            allowed = f"{', '.join(fields) or 'no settings'} in this order for {name}, each once"
            raise ArgumentError(argument, f"{name}:{text}", allowed)
        settings = {**first, **settings}
    if name == _BY_ARM and "std" not in settings:
        raise ArgumentError("std", None, f"a value: {name} has no default for it")
    return made(kind, settings)


def made(kind: Any, settings: Mapping[str, Any]) -> Any:
    """A family, or another dataclass, with these settings.

    Raises:
        ArgumentError: it has no setting of such a name.
        ArgumentError: a setting is missing, or the family refuses it.
    """
    fields = {field.name: field for field in dataclasses.fields(kind) if field.init}
    for name in settings:
        if name not in fields:
            raise unknown_name("setting", name, list(fields))
    for name, field in fields.items():
        defaults = {field.default, field.default_factory}
        if defaults == {dataclasses.MISSING} and name not in settings:
            raise ArgumentError(name, None, f"a value: {kind.__name__} has no default for it")
    return kind(**settings)


def settings_of(one: Family | Source) -> dict[str, Any] | None:
    """The settings that are not at their defaults, by name; None where no file names the class."""
    kind: Any = SOURCES.get(one.name) if isinstance(one, Source) else known().get(one.name)
    if type(one) is not kind:
        return None
    fields = [field for field in dataclasses.fields(kind) if field.init]
    values = {field.name: getattr(one, field.name) for field in fields}
    return {
        field.name: values[field.name] for field in fields if values[field.name] != field.default
    }


__all__ = [
    "Bernoulli",
    "Betas",
    "Bounded",
    "Exponential",
    "Gaussian",
    "GaussianUnknownVariance",
    "Logistic",
    "Normal",
    "OneParameter",
    "Points",
    "Poisson",
    "Recorded",
    "known",
    "made",
    "named",
    "settings_of",
]
