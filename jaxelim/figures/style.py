"""Shared figure style: colours, dashes, sizes. And the writing of figures."""

import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backend_bases import FigureCanvasBase
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, NullLocator, ScalarFormatter

from jaxelim import checks
from jaxelim.errors import ArgumentError
from jaxelim.figures.letters import fit
from jaxelim.files import writable_file, write_whole

STYLES = (
    ("#0072B2", "-"),
    ("#D55E00", "--"),
    ("#009E73", "-."),
    ("#CC79A7", ":"),
    ("#E69F00", (0, (5, 1))),
    ("#56B4E9", (0, (3, 1, 1, 1))),
    ("#000000", (0, (1, 1))),
    ("#882255", (0, (8, 2))),
    ("#999933", (0, (5, 2, 1, 2))),
    ("#332288", (0, (2, 2))),
    ("#8B4513", (0, (3, 1, 1, 1, 1, 1))),
    ("#44AA99", (0, (7, 1, 1, 1))),
)
"""Colours for colour-blind readers (the first six of Okabe & Ito, others of Tol), each with
its own dashes for grey prints."""

MARKERS = "osD^vPX<>*hp"
GREY = "0.35"


class Drawing(Figure):
    """A figure that a notebook shows as the value of a cell, without pyplot or a magic command.

    Names in any script are drawn; see `jaxelim.figures.letters`.
    """

    def draw(self, renderer: Any) -> None:
        fit(self)
        super().draw(renderer)

    def _repr_png_(self) -> bytes:
        contents = io.BytesIO()
        self.savefig(contents, format="png", dpi=100, metadata=_EMPTY["png"])
        return contents.getvalue()


def save(
    figure: Figure, path: Any, dpi: int = 150, endings: Sequence[str] | None = None
) -> tuple[Path, ...]:
    """Write a figure atomically, as PNG, PDF or both.

    The same figure gives the same bytes.

    Args:
        figure: what to write.
        path: where. An ending .png or .pdf names the format; without one both are written.
        dpi: dots per inch of the PNG.
        endings: "png", "pdf" or both, in place of what the path says.

    Returns:
        The paths written, one for each ending.

    Raises:
        ArgumentError: a folder that does not exist or takes no file, or an
            unknown ending.
        StoreError: the file cannot be written, such as on a full disk; an older file
            stays as it was.
    """
    path = Path(path)
    named = path.suffix in (".png", ".pdf")
    stem = path.with_suffix("") if named else path
    if endings is None:
        endings = (path.suffix[1:],) if named else ("png", "pdf")
    kinds = [checks.choice("endings", ending, ("png", "pdf")) for ending in endings]
    targets = [writable_file("path", stem.with_name(f"{stem.name}.{kind}")) for kind in kinds]
    for target in targets:
        write(figure, target, dpi)
    return tuple(targets)


# No date and no version, so that equal figures give equal files.
_EMPTY = {
    "png": {"Software": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    "svg": {"Date": None},
}


def write(figure: Figure, path: Path, dpi: int = 150) -> None:
    """Write one file atomically, in the format of its ending.

    Raises:
        StoreError: the file cannot be written, such as on a full disk.
    """
    kind, contents = path.suffix[1:].lower(), io.BytesIO()
    # Type 42 keeps the text of a PDF as text.
    with matplotlib.rc_context({"pdf.fonttype": 42}):
        figure.savefig(contents, format=kind, dpi=dpi, metadata=_EMPTY.get(kind))
    write_whole(path, contents.getvalue())


def figure_file(name: str, path: Any) -> Path:
    """Check the path of a figure: matplotlib knows its ending, and it can be written.

    Raises:
        ArgumentError: the path fails a check; see `writable_file`.
    """
    path = Path(path)
    kinds = sorted(set(FigureCanvasBase.get_supported_filetypes()) - {"pgf"})  # pgf needs LaTeX
    if path.suffix[1:].lower() not in kinds and not path.is_dir():
        allowed = f"a file that ends in {', '.join('.' + kind for kind in kinds)}"
        raise ArgumentError(name, str(path), allowed, f"it ends in {path.suffix!r}")
    return writable_file(name, path)


def single(width: float = 7, height: float = 4.2) -> tuple[Figure, Axes]:
    """A figure of one panel; sizes in inches."""
    figure = Drawing(figsize=(width, height), layout="constrained")
    return figure, figure.add_subplot()


def logarithmic(axis: Axis, low: float, high: float) -> None:
    """Tick a logarithmic axis with plain numbers, however short the range [low, high] is."""
    if high > 5 * low:
        axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 1000 * low else (1,)))
        axis.set_minor_formatter(NullFormatter())
    else:
        axis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
        axis.set_minor_locator(NullLocator())
    if high < 1000 * low:
        axis.set_major_formatter(ScalarFormatter(useOffset=False))


def outside(
    figure: Figure, where: str, note: str | None = None, named: dict[str, Any] | None = None
) -> None:
    """Add a legend outside all panels, with as many columns as its labels leave room for.

    Args:
        figure: with a constrained layout.
        where: "upper left" or "lower center".
        note: its title.
        named: handles by label; None: all of the panels, one for each label.
    """
    if named is None:
        named = {}
        for axes in figure.axes:
            for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
                named.setdefault(label, handle)
    widest = 0.6 + 0.06 * max(map(len, named))  # inches
    place: Any = f"outside {where}"
    figure.legend(list(named.values()), list(named), frameon=False, fontsize=8, title=note,
                  loc=place, title_fontsize=8,
                  ncols=max(1, min(5, int(figure.get_figwidth() / widest))))  # fmt: skip


def finished(figure: Figure, note: str | None = None) -> Figure:
    """Add a light grid and a legend without a frame, with the title `note`."""
    axes = figure.axes[0]
    axes.grid(alpha=0.25, linewidth=0.5)
    axes.legend(frameon=False, title=note, title_fontsize=8)
    return figure


def styled(name: str, entries: Any) -> Iterator[tuple[tuple[Any, Any], tuple[Any, Any]]]:
    """Pairs of the (key, value) of a mapping and a (colour, dash); 144 differ."""
    if not isinstance(entries, Mapping) or not entries:
        raise ArgumentError(
            name, entries, "a mapping from names to what is drawn, with at least one entry"
        )
    colours, dashes = zip(*STYLES, strict=True)
    n = len(STYLES)  # each round over the colours has other dashes
    pairs = [(colours[i % n], dashes[(i + i // n) % n]) for i in range(len(entries))]
    return zip(entries.items(), pairs, strict=True)
