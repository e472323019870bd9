"""Thresholds beta(t, delta) of the stopping and elimination tests."""

from jaxelim.thresholds.basic import GK16, Heuristic, LinearThreshold, LogLogThreshold
from jaxelim.thresholds.deviations import KaufmannKalyanakrishnan, KaufmannKoolen

__all__ = [
    "GK16", "Heuristic", "KaufmannKalyanakrishnan", "KaufmannKoolen", "LinearThreshold",
    "LogLogThreshold",
]  # fmt: skip
