"""Reward families, one file each."""

from jaxelim.contracts import Family
from jaxelim.families.bernoulli import Bernoulli
from jaxelim.families.gaussian import Gaussian
from jaxelim.families.one_parameter import OneParameter
from jaxelim.families.unknown_variance import GaussianUnknownVariance


def known() -> dict[str, type[Family]]:
    """Families by name."""
    return {kind.name: kind for kind in (Gaussian, Bernoulli, GaussianUnknownVariance)}


__all__ = ["Bernoulli", "Gaussian", "GaussianUnknownVariance", "OneParameter", "known"]
