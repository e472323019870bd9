"""Thresholds beta(t, delta) of the stopping and elimination tests."""

from jaxelim.thresholds.basic import GK16, Heuristic, LinearThreshold, LogLogThreshold
from jaxelim.thresholds.deviations import KaufmannKalyanakrishnan, KaufmannKoolen
from jaxelim.thresholds.mixture import Mixture

__all__ = [
    "GK16", "Heuristic", "KaufmannKalyanakrishnan", "KaufmannKoolen", "LinearThreshold",
    "LogLogThreshold", "Mixture",
]  # fmt: skip
