"""Reward families, one file each."""

from jaxelim.contracts import Family
from jaxelim.families.bernoulli import Bernoulli
from jaxelim.families.exponential import Exponential
from jaxelim.families.gaussian import Gaussian
from jaxelim.families.gaussian_by_arm import GaussianByArm
from jaxelim.families.one_parameter import OneParameter
from jaxelim.families.poisson import Poisson

KINDS = (
    Gaussian,
    GaussianByArm,
    Bernoulli,
    Poisson,
    Exponential,
)


def known() -> dict[str, type[Family]]:
    """Families by name."""
    return {kind.name: kind for kind in KINDS}


__all__ = [
    "Bernoulli",
    "Exponential",
    "Gaussian",
    "GaussianByArm",
    "OneParameter",
    "Poisson",
    "known",
]
