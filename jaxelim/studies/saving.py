"""Writes a study to a file: an archive of results."""

import io
import json
import zipfile
from typing import TYPE_CHECKING, Any

from jaxelim.files import writable_file, write_whole
from jaxelim.simulation.results.saving import contents, path_of

if TYPE_CHECKING:
    from jaxelim.studies.study import Study

INDEX = "study.json"
FORMAT = 1
"""Version of the archive; raise it when it changes."""


def save(study: "Study", path: Any) -> None:
    """Write a study; see `Study.save`."""
    target = writable_file("path", path_of(path))
    names = [f"{n:04d}.nc" for n in range(len(study))]
    index = {"jaxelim_study": FORMAT, "results": dict(zip(names, map(list, study), strict=True))}
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_STORED) as archive:  # NetCDF is compressed
        _put(archive, INDEX, json.dumps(index, indent=1).encode())
        for name, result in zip(names, study.results.values(), strict=True):
            _put(archive, name, contents(result))
    write_whole(target, written.getvalue())


def _put(archive: zipfile.ZipFile, name: str, what: bytes) -> None:
    """Add a file without a date, so that equal studies give equal bytes."""
    archive.writestr(zipfile.ZipInfo(name), what)
