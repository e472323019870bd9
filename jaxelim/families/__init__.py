"""Reward families. One file each."""

from jaxelim.contracts import Family
from jaxelim.families.bernoulli import Bernoulli
from jaxelim.families.gaussian import Gaussian


def known() -> dict[str, type[Family]]:
    """Name -> family."""
    return {kind.name: kind for kind in (Gaussian, Bernoulli)}


__all__ = ["Bernoulli", "Gaussian", "known"]
