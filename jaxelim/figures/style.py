"""The dress of all figures: colours, dashes, sizes; and how they are written."""

import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from jaxelim import checks
from jaxelim.errors import ArgumentError
from jaxelim.store.files import write_whole

STYLES = (
    ("#0072B2", "-"),
    ("#D55E00", "--"),
    ("#009E73", "-."),
    ("#CC79A7", ":"),
    ("#E69F00", (0, (5, 1))),
    ("#56B4E9", (0, (3, 1, 1, 1))),
)
"""Colours that colour-blind readers tell apart (Okabe & Ito), each with a dash pattern of its own for grey prints."""

MARKERS = "osD^vP"
GREY = "0.35"


def save(figure: Figure, path: Any, dpi: int = 150, endings: Sequence[str] = ("png", "pdf")) -> tuple[Path, ...]:
    """Write `path` with the endings .png and .pdf, each whole or not at all.

    Args:
        figure: what to write.
        path: where; an ending .png or .pdf is replaced. The same figure gives the same bytes.
        dpi: dots per inch of the PNG.
        endings: "png", "pdf" or both.

    Returns:
        The paths written, one for each ending.

    Raises:
        ArgumentError: the folder does not exist.
        StoreError: the disk is full, the folder cannot be written, or the like; an older file stays as it was.
    """
    path = Path(path)
    stem = path.with_suffix("") if path.suffix in (".png", ".pdf") else path
    if not stem.parent.is_dir():
        raise ArgumentError("path", str(path), "a file in a folder that exists")
    written = []
    # No date and no version, so that equal figures are equal files.
    empty = {"png": {"Software": None}, "pdf": {"CreationDate": None, "Creator": None, "Producer": None}}
    # Type 42 keeps the text of a PDF text.
    with matplotlib.rc_context({"pdf.fonttype": 42}):
        for ending in endings:
            metadata = empty[checks.choice("endings", ending, tuple(empty))]
            target = stem.with_name(f"{stem.name}.{ending}")
            contents = io.BytesIO()
            figure.savefig(contents, format=ending, dpi=dpi, metadata=metadata)
            write_whole(target, contents.getvalue())
            written.append(target)
    return tuple(written)


def single(width: float = 7, height: float = 4.2) -> tuple[Figure, Axes]:
    """A figure of one panel; sizes in inches."""
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.add_subplot()


def finished(figure: Figure) -> Figure:
    """The common dress: a light grid and a legend without a frame."""
    axes = figure.axes[0]
    axes.grid(alpha=0.25, linewidth=0.5)
    axes.legend(frameon=False)
    return figure


def styled(name: str, given: Any) -> Iterator[tuple[tuple[Any, Any], tuple[Any, Any]]]:
    """(key, value) of a mapping with a colour and a dash each."""
    if not isinstance(given, Mapping) or not given:
        raise ArgumentError(name, given, "a mapping from names to what is drawn, with at least one entry")
    return zip(given.items(), STYLES * len(given), strict=False)
