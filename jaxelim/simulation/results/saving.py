"""Writes results to files: one NetCDF file with the arrays and the experiment."""

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from jaxelim.files import writable_file, write_whole
from jaxelim.simulation.results.descriptions import experiment_of

if TYPE_CHECKING:
    from xarray import Dataset

    from jaxelim.simulation.results.result import Result

FORMAT = 2
"""Version of the files' layout; raise it when the layout changes."""
NUMBERS = {"arms": ("arm", "dimension"), "theta": ("dimension",)}
"""The arrays of an instance, and their axes."""


def write(path: Any, data: Any, parts: "Mapping[str, Dataset] | None" = None) -> None:
    """Write a dataset, or a tree of `parts` by their places, to a NetCDF file, compressed."""
    target = writable_file("path", path)

    def packed(part: "Dataset") -> dict:
        return {str(name): {"zlib": True, "complevel": 4} for name in part.data_vars}

    encoding = packed(data) if parts is None else {name: packed(x) for name, x in parts.items()}
    write_whole(target, bytes(data.to_netcdf(engine="h5netcdf", encoding=encoding)))


def dataset_of(result: "Result") -> "Dataset":
    """A result with all that `load_result` needs, as a dataset."""
    told = json.dumps(experiment_of(result), separators=(",", ":"), allow_nan=False)
    data = result.to_xarray()
    lead = ("instance",) if result.batched else ()
    for name, axes in NUMBERS.items():
        data[name] = ((*lead, *axes), getattr(result.instance, name))
    if result.instance.costs is not None:
        data["arm_costs"] = (("arm",), result.instance.costs)
    data.attrs |= {"jaxelim_result": FORMAT, "experiment": told, "checksum": checksum(data, told)}
    return data


def checksum(data: "Dataset", told: str) -> str:
    """SHA-256 of the experiment and of all numbers."""
    total = hashlib.sha256(told.encode())
    for name in sorted(map(str, data.variables)):
        x = np.asarray(data[name].values)
        text = str(x.tolist()) if x.dtype.kind in "OUT" else ""
        total.update(f"{name}{x.shape}{text}".encode())
        if not text:
            total.update(np.ascontiguousarray(x, x.dtype.newbyteorder("<")).tobytes())
    return total.hexdigest()
