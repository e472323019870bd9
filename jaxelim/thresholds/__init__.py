"""Thresholds beta(t, delta) of the stopping and elimination tests."""

from jaxelim.thresholds.basic import GK16, Heuristic, LinearThreshold
from jaxelim.thresholds.kaufmann_koolen import KaufmannKoolen
from jaxelim.thresholds.mixture import Mixture

__all__ = ["GK16", "Heuristic", "KaufmannKoolen", "LinearThreshold", "Mixture"]
