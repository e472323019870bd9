"""Reward families, and sources that rewards are drawn from."""

from typing import Any

from jaxelim.families.bounded import Bounded
from jaxelim.families.gaussian import Gaussian
from jaxelim.families.logistic import Logistic
from jaxelim.families.one_parameter import (
    Bernoulli,
    Exponential,
    GaussianUnknownVariance,
    OneParameter,
    Poisson,
)  # fmt: skip
from jaxelim.families.paired import Paired
from jaxelim.families.sources import Betas, Normal, Points, Recorded

KINDS = (
    Gaussian, Bernoulli, Poisson, Exponential, GaussianUnknownVariance, Logistic, Bounded, Paired,
)  # fmt: skip
NAMES: dict[str, Any] = {kind().name: kind for kind in KINDS}
"""Families by name."""
SOURCES: dict[str, Any] = {kind.name: kind for kind in (Recorded, Points, Betas, Normal)}
"""Sources of rewards by name."""

__all__ = [
    "Bernoulli", "Betas", "Bounded", "Exponential", "Gaussian", "GaussianUnknownVariance",
    "Logistic", "Normal", "OneParameter", "Paired", "Points", "Poisson", "Recorded",
]  # fmt: skip
