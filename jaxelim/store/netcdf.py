"""NetCDF files in memory: datasets to bytes and back."""

import contextlib
import io
import sys
from typing import Any

import h5py
import xarray as xr


def encoded(data: xr.Dataset) -> bytes:
    """The contents of a NetCDF file, compressed.

    A dataset gives the same bytes each time in one process. Copies that came from workers
    may give others, of equal arrays: what is promised are the arrays, not the file's bytes.

    Built in memory: on a full disk HDF5 can fail anywhere, but a plain write in one place.
    """
    packed = {str(name): {"zlib": True, "complevel": 4} for name in data.data_vars}
    with _without_locks():
        return bytes(data.to_netcdf(engine="h5netcdf", encoding=packed))


def _without_locks() -> contextlib.AbstractContextManager:
    """Keep xarray from taking a distributed lock where the caller has a Dask client.

    The file is in memory, and the scheduler does not know the lock's name.
    """
    dask = sys.modules.get("dask")
    return contextlib.nullcontext() if dask is None else dask.config.set(scheduler="sync")


def parsed(contents: bytes) -> tuple[xr.Dataset, dict]:
    """The arrays and the attributes of a NetCDF file that xarray wrote.

    h5py reads it faster than `xr.open_dataset` does, and checks nothing.
    """
    variables: dict[str, Any] = {}
    with h5py.File(io.BytesIO(contents), "r") as file:
        attributes = dict(file.attrs)
        for name, variable in file.items():
            own = variable.attrs
            dims = tuple(axis[0].name.removeprefix("/") for axis in variable.dims if len(axis))
            if own.get("CLASS") == b"DIMENSION_SCALE":
                if bytes(own.get("NAME", b"")).startswith(b"This is a netCDF dimension but not"):
                    continue
                dims = (name,)
            text = h5py.check_string_dtype(variable.dtype)
            values = variable.asstr()[()].astype(str) if text else variable[()]
            if own.get("dtype") == "bool":
                values = values.astype(bool)
            variables[name] = (dims, values, {"units": own["units"]} if "units" in own else {})
    coordinates = {name: x for name, x in variables.items() if x[0] == (name,)}
    return xr.Dataset(
        {k: v for k, v in variables.items() if k not in coordinates}, coordinates
    ), attributes
