"""Thresholds beta(t, delta) of the stopping and elimination tests."""

from jaxelim.thresholds.basic import GK16, Heuristic
from jaxelim.thresholds.kaufmann_koolen import KaufmannKoolen
from jaxelim.thresholds.linear import LinearThreshold
from jaxelim.thresholds.mixture import Mixture

__all__ = ["GK16", "Heuristic", "KaufmannKoolen", "LinearThreshold", "Mixture"]
