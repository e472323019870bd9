"""Thresholds beta(t, delta) of the stopping and elimination tests."""

from jaxelim.thresholds.basic import GK16, Heuristic, KaufmannKoolen, LinearThreshold
from jaxelim.thresholds.mixture import Mixture

__all__ = ["GK16", "Heuristic", "KaufmannKoolen", "LinearThreshold", "Mixture"]
