"""Mixtures of likelihood ratios: priors, e-values of pieces, confidence sequences."""

from jaxelim.mixtures.grid import Grid

__all__ = ["Grid"]
