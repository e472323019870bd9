"""Reward families, a file each; Gaussian rewards of linear arms have several."""

from typing import Any

from jaxelim.families.bernoulli import Bernoulli
from jaxelim.families.bounded import Bounded
from jaxelim.families.exponential import Exponential
from jaxelim.families.gaussian import Gaussian
from jaxelim.families.logistic import Logistic
from jaxelim.families.one_parameter import OneParameter
from jaxelim.families.paired import Paired
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
    Paired,
)
NAMES: dict[str, Any] = {kind().name: kind for kind in KINDS}
"""Families by name."""
SOURCES: dict[str, Any] = {kind.name: kind for kind in (Recorded, Points, Betas, Normal)}
"""Sources of rewards by name."""

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
    "Paired",
    "Points",
    "Poisson",
    "Recorded",
]
