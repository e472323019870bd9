"""Stopping rules, eliminations and thresholds, which decide when a run may end."""

from jaxelim.stopping.deviations import KaufmannKalyanakrishnan, KaufmannKoolen
from jaxelim.stopping.elimination import FullElimination, SelectiveElimination
from jaxelim.stopping.llr import LLR, Native
from jaxelim.stopping.resets import Resets
from jaxelim.stopping.thresholds import GK16, Heuristic, LinearThreshold, LogLogThreshold

__all__ = [
    "GK16", "LLR", "FullElimination", "Heuristic", "KaufmannKalyanakrishnan", "KaufmannKoolen",
    "LinearThreshold", "LogLogThreshold", "Native", "Resets", "SelectiveElimination",
]  # fmt: skip
