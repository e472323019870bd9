"""Letters that matplotlib's font lacks: of another font that is installed, else as numbers."""

import functools
import itertools
import textwrap
from typing import Any

from matplotlib import font_manager
from matplotlib.figure import Figure
from matplotlib.text import Text


def fit(figure: Figure) -> None:
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
