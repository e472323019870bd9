"""Shared figure style: colours, dashes, fonts, panels, legends. And the writing of figures."""

import functools
import io
import itertools
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib import font_manager
from matplotlib.axis import Axis
from matplotlib.backend_bases import FigureCanvasBase
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, NullLocator, ScalarFormatter

from jaxelim import checks
from jaxelim.errors import ArgumentError
from jaxelim.files import writable_file, write_whole

STYLES = (
    ("#0072B2", "-"), ("#D55E00", "--"), ("#009E73", "-."), ("#CC79A7", ":"),
    ("#E69F00", (0, (5, 1))), ("#56B4E9", (0, (3, 1, 1, 1))), ("#000000", (0, (1, 1))),
    ("#882255", (0, (8, 2))), ("#999933", (0, (5, 2, 1, 2))), ("#332288", (0, (2, 2))),
    ("#8B4513", (0, (3, 1, 1, 1, 1, 1))), ("#44AA99", (0, (7, 1, 1, 1))),
)  # fmt: skip
"""Colours for colour-blind readers (the first six of Okabe & Ito, others of Tol), each with
its own dashes for grey prints."""

MARKERS = "osD^vPX<>*hp"
GREY = "0.35"

_KINDS = sorted(set(FigureCanvasBase.get_supported_filetypes()) - {"pgf"})
"""The endings that matplotlib knows; its pgf needs LaTeX."""
_EMPTY = {
    "png": {"Software": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    "svg": {"Date": None},
}
"""No date and no version, so that equal figures give equal files."""


class Drawing(Figure):
    """A figure that a notebook shows as the value of a cell, without pyplot or a magic command."""

    def draw(self, renderer: Any) -> None:
        _fit(self)  # names in any script
        super().draw(renderer)

    def _repr_png_(self) -> bytes:
        return _contents(self, "png", 100)


def _contents(figure: Figure, kind: str, dpi: int) -> bytes:
    """The bytes of a file of this kind."""
    contents = io.BytesIO()
    with matplotlib.rc_context({"pdf.fonttype": 42}):  # keeps the text of a PDF as text
        figure.savefig(contents, format=kind, dpi=dpi, metadata=_EMPTY.get(kind))
    return contents.getvalue()


def _kind(path: Path) -> str:
    """The format that the ending of a path names; "" if it names none."""
    kind = path.suffix[1:].lower()
    return kind if kind in _KINDS else ""


def save(
    figure: Figure, path: Any, dpi: int = 150, endings: Sequence[str] | None = None
) -> tuple[Path, ...]:
    """Write a figure atomically, as PNG and PDF or in the format of its ending.

    The same figure gives the same bytes.

    Args:
        figure: what to write.
        path: where. An ending that matplotlib knows, as .png or .svg, names the format;
            without one PNG and PDF are written.
        dpi: dots per inch of pixels.
        endings: "png", "pdf" or both, in place of what the path says.

    Returns:
        The paths written, one for each ending.

    Raises:
        ArgumentError: a folder that does not exist or takes no file, or an
            unknown ending.
        StoreError: the file cannot be written, such as on a full disk; an older file
            stays as it was.
    """
    targets, path = [Path(path)], Path(path)
    if endings is not None or not _kind(path):
        stem, both = path.with_suffix("") if _kind(path) else path, ("png", "pdf")
        kinds = [checks.choice("endings", x, both) for x in (both if endings is None else endings)]
        targets = [stem.with_name(f"{stem.name}.{kind}") for kind in kinds]
    for target in targets:
        writable_file("path", target)
    for target in targets:
        write_whole(target, _contents(figure, _kind(target), dpi))
    return tuple(targets)


def figure_file(name: str, path: Any) -> Path:
    """Check the path of a figure: matplotlib knows its ending, and it can be written.

    Raises:
        ArgumentError: the path fails a check; see `writable_file`.
    """
    path = Path(path)
    if not _kind(path) and not path.is_dir():
        allowed = f"a file that ends in {', '.join(f'.{kind}' for kind in _KINDS)}"
        raise ArgumentError(name, str(path), allowed, f"it ends in {path.suffix!r}")
    return writable_file(name, path)


def panels(
    size: tuple = (7, 4.2), columns: int = 1, rows: int = 1, grid: Any = "both", **how: Any
) -> tuple[Figure, Any]:
    """A figure of panels [rows, columns] with a light grid; its size in inches."""
    figure = Drawing(figsize=size, layout="constrained")
    found = figure.subplots(rows, columns, squeeze=False, **how)
    for axes in found.flat:
        axes.grid(alpha=0.25, linewidth=0.5, axis=grid)
        axes.set_axisbelow(True)
    return figure, found


def logarithmic(axis: Axis) -> None:
    """Tick a logarithmic axis with plain numbers, however short its range is."""
    low, high = axis.get_view_interval()
    if high > 5 * low:
        axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 1000 * low else (1,)))
        axis.set_minor_formatter(NullFormatter())
    else:
        axis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
        axis.set_minor_locator(NullLocator())
    if high < 1000 * low:
        axis.set_major_formatter(ScalarFormatter(useOffset=False))


def legend(figure: Figure, loc: Any = "outside lower center", note: str | None = None) -> Figure:
    """Add a legend of all panels outside them, with the title `note`; return the figure.

    It has as many columns as its labels leave room for, and the figure is higher by its lines.
    """
    named: dict[str, Any] = {}
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            named.setdefault(label, handle)
    widths = np.sort([-0.6 - 0.06 * len(label) for label in named])  # inches, the widest first
    columns = max(1, min(5, int((-widths.cumsum() <= figure.get_figwidth()).sum())))
    lines = -(-len(named) // columns) + (note is not None)
    figure.set_figheight(figure.get_figheight() + 0.18 * lines)
    figure.legend(list(named.values()), list(named), frameon=False, fontsize=8, title=note,
                  loc=loc, title_fontsize=8, ncols=columns)  # fmt: skip
    return figure


def style_of(place: int) -> dict[str, Any]:
    """The colour, the dash and the marker of the curve of this number; 144 differ."""
    n = len(STYLES)  # each round over the colours has other dashes
    dash = STYLES[(place + place // n) % n][1]
    return {"color": STYLES[place % n][0], "linestyle": dash,
            "marker": MARKERS[place % len(MARKERS)]}  # fmt: skip


# Letters that matplotlib's font lacks: of another font that is installed, else as numbers.


def _fit(figure: Figure) -> None:
    """Give all texts of a figure fonts that have their letters.

    Names with letters that no font has are numbered, as "#1". The legend below the figure has
    them as Python's `ascii` writes them.
    """
    numbers: dict[str, str] = {}
    for axis in (axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)):
        labels = [text.get_text() for text in axis.get_ticklabels()]
        drawn = [_drawn(label, numbers)[0] for label in labels]
        if drawn != labels:
            axis.set_ticklabels(drawn)
    texts: Any = figure.findobj(Text)
    for text in texts:
        drawn, fonts = _drawn(text.get_text(), numbers)
        text.set_text(drawn)
        if fonts:
            text.set_fontfamily([*text.get_fontfamily(), *fonts])
    if numbers:
        legend = ", ".join(f"{number} = {ascii(name)}" for name, number in numbers.items())
        figure.supxlabel("\n".join(textwrap.wrap(legend, 100)), fontsize=7)


def _drawn(text: str, numbers: dict[str, str]) -> tuple[str, tuple[str, ...]]:
    """A text with a number in place of each name that has letters in no font, and its fonts.

    These are fonts of letters that matplotlib's own font lacks.
    """
    if text.isascii():
        return text, ()
    own, parts = _of_file(font_manager.findfont(font_manager.FontProperties())), []
    missing = frozenset(x for x in text if not x.isspace() and x not in own)
    fonts, lost = _fonts(missing)
    for other, group in itertools.groupby(text, missing.__contains__):
        part = "".join(group)
        if other and not lost.isdisjoint(part):
            part = numbers.setdefault(part, f"#{len(numbers) + 1}")
        parts.append(part)
    return "".join(parts), fonts


@functools.lru_cache(maxsize=256)
def _fonts(letters: frozenset[str]) -> tuple[tuple[str, ...], frozenset[str]]:
    """Installed fonts for these letters, those with the most of them first; and those in none."""
    plain = {
        font.name: font.fname for font in font_manager.fontManager.ttflist
        if font.style == "normal" and font.weight in (400, "normal", "regular")
        and not font.name.startswith("Last Resort")  # which has a box for every letter
    } if letters else {}  # fmt: skip
    found = []
    for name in sorted(plain, key=lambda name: (-len(letters & _of_file(plain[name])), name)):
        if letters & _of_file(plain[name]):
            found.append(name)
            letters -= _of_file(plain[name])
    return tuple(found), letters


@functools.lru_cache(maxsize=1024)
def _of_file(path: str) -> frozenset[str]:
    return frozenset(map(chr, font_manager.get_font(path).get_charmap()))
