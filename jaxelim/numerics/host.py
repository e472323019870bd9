"""Products and inverses on the host, without a library whose rounding depends on the processor."""

import numpy as np


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a @ b of [.., n, q] and [.., q, m]."""
    return np.einsum("...nq,...qm->...nm", a, b)


def inverse(a: np.ndarray) -> np.ndarray:
    """The inverses of symmetric positive definite matrices [.., q, q], by elimination."""
    out = np.array(a, np.float64)
    for j in range(a.shape[-1]):
        row, column = out[..., j, :].copy(), out[..., j].copy()
        row[..., j] = 1.0
        row /= column[..., j, None]
        out[..., j] = 0.0
        out -= column[..., None] * row[..., None, :]
        out[..., j, :] = row
    return out
