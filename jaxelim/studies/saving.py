"""Writes a study to one NetCDF file, with a group for each result."""

import json
from typing import TYPE_CHECKING, Any

import xarray as xr

from jaxelim.files import writable_file, write_whole
from jaxelim.simulation.results.saving import dataset_of, packed, path_of

if TYPE_CHECKING:
    from jaxelim.studies.study import Study

FORMAT = 2
"""Version of a study's files; raise it when it changes."""


def save(study: "Study", path: Any) -> None:
    """Write a study; see `Study.save`."""
    target = writable_file("path", path_of(path))
    parts = {f"/{n}": dataset_of(result) for n, result in enumerate(study.results.values())}
    for part, key in zip(parts.values(), study.results, strict=True):
        part.attrs["key"] = json.dumps(key)
    root = xr.Dataset(attrs={"jaxelim_study": FORMAT})
    tree = xr.DataTree.from_dict({"/": root, **parts})
    encoding = {name: packed(part) for name, part in parts.items()}
    write_whole(target, bytes(tree.to_netcdf(engine="h5netcdf", encoding=encoding)))
