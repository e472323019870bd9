"""The counts of |z| that pages quote, from the tables of results.

    python -m experiments.agreement    write them into the pages

Each table of `docs/results/` says how many of the paper's cells have |z| <= 2, up to 3 and
beyond. Pages quote the sums in fixed phrases, `PHRASES`; a test holds them equal.
"""

import dataclasses
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TABLES = ("table1", "table3", "table4")
_LINE = re.compile(
    r"^- (\d+) of the paper's cells: \|z\| <= 2 in (\d+), 2 < \|z\| <= 3 in (\d+), "
    r"\|z\| > 3 in (\d+)\.",
    re.M,
)


@dataclasses.dataclass(frozen=True)
class Counts:
    """Numbers of the paper's cells: all, and those by |z|."""

    cells: int
    near: int  # |z| <= 2
    within: int  # up to 3
    beyond: int

    def __add__(self, other: "Counts") -> "Counts":
        pairs = zip(dataclasses.astuple(self), dataclasses.astuple(other), strict=True)
        return Counts(*(a + b for a, b in pairs))


def counts(table: str, root: Path = ROOT) -> Counts:
    """The counts of one table's page."""
    found = _LINE.search((root / "docs" / "results" / f"{table}.md").read_text())
    assert found, f"{table}.md has no line of counts"
    return Counts(*map(int, found.groups()))


PHRASES = {
    "README.md": "of {cells} cells {near} have",
    "docs/explanation/why-believe-the-numbers.md": "{near} of {cells} cells have |z| <= 2",
    "docs/how-to/reproduce-the-paper.md": (
        "Of the {cells} cells of the three tables {near} have |z| <= 2, {within} lie between 2 "
        "and 3, and {beyond} beyond"
    ),
    "docs/reference/reproduction.md": (
        "{near} of {cells} cells have |z| <= 2, {within} lie between 2 and 3, and {beyond} beyond"
    ),
}
"""What each page says of all tables together; its words may stand on several lines."""
ROW = "| `make {table} RUNS=1000` | {cells} | {near} | {within} | {beyond} |"
"""A row of a table in the page of reproduction."""


def replaced(text: str, phrase: str, found: Counts) -> str:
    """The text with these numbers in a phrase, which stands in it once."""
    literal, names = re.split(r"{\w+}", phrase), re.findall(r"{(\w+)}", phrase)
    parts = [re.escape(one).replace(r"\ ", r"\s+") for one in literal]
    places = list(re.finditer(r"(\d+)".join(parts), text))
    assert len(places) == 1, f"{len(places)} places say {phrase!r}"
    new, end = text, len(text)
    for n in reversed(range(len(names))):
        start, end = places[0].span(n + 1)
        new = new[:start] + str(getattr(found, names[n])) + new[end:]
    return new


def pages(root: Path = ROOT) -> dict[str, str]:
    """The pages with the counts of the tables, by path."""
    each = {table: counts(table, root) for table in TABLES}
    total = sum(each.values(), Counts(0, 0, 0, 0))
    found = {path: (root / path).read_text() for path in PHRASES}
    for path, phrase in PHRASES.items():
        found[path] = replaced(found[path], phrase, total)
    last = "docs/reference/reproduction.md"
    for table, own in each.items():
        found[last] = replaced(found[last], ROW.replace("{table}", table), own)
    return found


def main() -> None:
    for path, text in pages().items():
        (ROOT / path).write_text(text)


if __name__ == "__main__":
    main()
