"""A call of `simulate` for workers that have jaxelim alone, in the form of a store."""

import dataclasses
import platform
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from jaxelim.simulation.api import simulate

if TYPE_CHECKING:
    import xarray as xr


@dataclasses.dataclass(frozen=True)
class StoredCall:
    """A call without its runs; `arguments` are those of `simulate` by name."""

    arguments: dict[str, Any]

    def compute(
        self, runs: np.ndarray, progress: Callable[[int, int, int, float], None]
    ) -> "tuple[xr.Dataset, dict]":
        """Compute these runs.

        Returns:
            Arrays with a dimension `run`, and measurements of the work.
        """
        result = simulate(**self.arguments, runs=runs, progress=progress)
        data = result.to_xarray()
        data.attrs = {}
        layout = {f"plan_{key}": value for key, value in result.layout.items()}
        versions = {"jax": jax.__version__, "numpy": np.__version__, "machine": platform.machine()}
        return data, {**result.timings, **layout, **versions}
