"""Reward families. One file each."""

from jaxelim.contracts import Family
from jaxelim.families.bernoulli import Bernoulli
from jaxelim.families.gaussian import Gaussian
from jaxelim.families.one_parameter import OneParameter


def known() -> dict[str, type[Family]]:
    """Name -> family."""
    return {kind.name: kind for kind in (Gaussian, Bernoulli)}


__all__ = ["Bernoulli", "Gaussian", "OneParameter", "known"]
