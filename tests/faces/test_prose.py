"""Pages are plain prose: short lines, no private words, links and paths that exist.

Nothing here imports jaxelim or JAX; `FOLDERS` says which Python code is read too.
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [
    "README.md", "CHANGELOG.md", "CONTRIBUTING.md",
    *sorted(
        str(one.relative_to(ROOT))
        for one in ROOT.glob("docs/**/*.md")
        if one.parent.name != "results"  # which commands write
    ),
]  # fmt: skip
FOLDERS: tuple[str, ...] = (
    "jaxelim", "benchmarks", "docs", "examples", "experiments", "tests",
)  # fmt: skip
"""Folders whose docstrings and comments must be free of private words."""
WIDTH = 88
PRIVATE = (
    "afresh", "aloud", "anew", "as it were", "engine of before", "engine of now", "fallen",
    "hand in", "handed in", "handing in", "hands in", "lest", "rooms", "whence", "wherefore",
    "whose that is",
)  # fmt: skip
"""Words and phrases that a reader of the field would stumble over."""
GENERATED = r"<!-- (\w+)\b[^>]*-->\n.*?<!-- /\1 -->"
PATH = r"(?<![\w/.~-])(?:jaxelim|tests|experiments|benchmarks|docs)/[\w./-]*"
WRITTEN = ("benchmarks/results/",)
"""Folders that commands write, which git does not hold."""

Line = tuple[int, str]


def prose(text: str) -> list[Line]:
    """Numbered lines of a page, without fenced code, tables and generated blocks."""

    def blank(found: re.Match) -> str:
        return "\n" * found.group().count("\n")

    text = re.sub(GENERATED, blank, text, flags=re.S)
    text = re.sub(r"^ *```.*?^ *```", blank, text, flags=re.S | re.M)
    lines = enumerate(text.split("\n"), 1)
    return [(number, line) for number, line in lines if not line.startswith("|")]


def spoken(source: str) -> list[Line]:
    """The lines of a module's docstrings and comments, numbered."""
    found = []
    for node in ast.walk(ast.parse(source)):
        value = node.value if isinstance(node, ast.Expr) else None
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            found += enumerate(value.value.split("\n"), value.lineno)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            found.append((token.start[0], token.string))
    return sorted(found)


def too_long(lines: Iterable[Line]) -> list[Line]:
    """Lines of more than `WIDTH` columns, addresses not counted."""
    return [one for one in lines if len(re.sub(r"https?://[^\s)]+", "", one[1])) > WIDTH]


def accidental(text: str) -> list[Line]:
    """Lines of a paragraph that begin as an item of a list does."""
    lines, found = text.split("\n"), []
    shown = dict(prose(text))
    for number, line in shown.items():
        above = lines[number - 2] if number > 1 else ""
        inside = re.match(r"[A-Za-z(`*\[]", above) and not re.match(r"\s*([-*+]|\d+\.) ", above)
        if inside and re.match(r"([-+*]|\d+\.) ", line):
            found.append((number, line))
    return found


def private(lines: Iterable[Line]) -> list[tuple[int, str]]:
    """Private words outside inline code, also in phrases across two lines."""
    lines = list(lines)
    text, starts = "", []
    for number, line in lines:
        starts.append((len(text), number))
        text += line.strip(" #") + "\n"
    text = re.sub(r"`[^`\n]*`", lambda code: re.sub(r"\S", "_", code.group()), text)
    phrases = (re.escape(phrase).replace(r"\ ", r"\s+") for phrase in PRIVATE)
    found = re.finditer(rf"\b({'|'.join(phrases)})\b", text, re.I)
    return [(max(n for at, n in starts if at <= one.start()), one.group()) for one in found]


def headings(text: str) -> set[str]:
    """The anchors of a page's headings."""
    found = [line for _, line in prose(text) if line.startswith("#")]
    plain = (re.sub(r"[^\w\- ]", "", line.lstrip("# ").lower()) for line in found)
    return {line.replace(" ", "-") for line in plain}


def broken_links(page: Path, text: str) -> list[Line]:
    """Relative links of a page to files or headings that are not there."""
    found = []
    for number, line in prose(text):
        for target in re.findall(r"\]\(([^)\s]+)\)", line):
            if re.match(r"[a-z]+:", target):
                continue
            name, _, anchor = target.partition("#")
            file = page.parent / name if name else page
            known = headings(file.read_text()) if anchor and file.is_file() else {anchor}
            if not file.exists() or anchor not in known:
                found.append((number, target))
    return found


def missing_paths(text: str) -> list[Line]:
    """Missing paths of the project, and names such as jaxelim.store.REVISION."""
    found = []
    for number, line in prose(text):
        for path in re.findall(PATH, line):
            path = path.rstrip(".")
            if not path.startswith(WRITTEN) and not (ROOT / path).exists():
                found.append((number, path))
        for name in re.findall(r"(?<![\w/.])jaxelim(?:\.\w+)+", line):
            if not defined(name.split(".")):
                found.append((number, name))
    return found


def defined(parts: list[str]) -> bool:
    """Whether a dotted name is a module or stands in the text of one."""
    at = ROOT / parts[0]
    for place, part in enumerate(parts[1:], 1):
        if (at / part).is_dir():
            at = at / part
            continue
        module = at / f"{part}.py"
        rest = parts[place + 1 :] if module.is_file() else parts[place:]
        text = (module if module.is_file() else at / "__init__.py").read_text()
        return all(re.search(rf"\b{one}\b", text) for one in rest)
    return True


def modules() -> Iterator[Path]:
    """The Python files of `FOLDERS`."""
    for folder in FOLDERS:
        yield from sorted((ROOT / folder).rglob("*.py"))


@pytest.mark.parametrize("page", PAGES)
def test_page(page):
    text = (ROOT / page).read_text()
    assert not too_long(prose(text))
    assert not private(prose(text))
    assert not broken_links(ROOT / page, text)
    assert not missing_paths(text)
    assert not accidental(text)


def test_docstrings_and_comments():
    found = {str(one.relative_to(ROOT)): private(spoken(one.read_text())) for one in modules()}
    assert not {name: words for name, words in found.items() if words}


def test_the_checks_find_what_they_look_for():
    long = "x " * 45
    code = f"```\n{long}anew\n```\n| {long}anew |\n<!-- demo -->\n{long}anew\n<!-- /demo -->\n"
    assert not too_long(prose(code)) and not private(prose(code)) and len(prose(code)) == 7
    assert too_long(prose(f"{code}{long}\n")) == [(8, long)]
    assert not too_long([(1, f"[a page](https://example.org/{long.replace(' ', '/')})")])
    assert accidental(
        "The variance is mu (1\n- mu). So\n\n- an item\n  of two lines\n- one more"
    ) == [(2, "- mu). So")]
    assert private([(1, "Made anew, `anew`; handed"), (2, "in. Newest.")]) == [
        (1, "anew"), (1, "handed\nin")
    ]  # fmt: skip
    source = '"""One."""\nanew = "lest"  # aloud\ndef f():\n    """Two.\n\n    Whence.\n    """\n'
    assert private(spoken(source)) == [(2, "aloud"), (6, "Whence")]
    page = ROOT / "docs" / "explanation" / "page.md"
    good = (
        "[a](../../README.md) [b](elimination.md#elimination) [c](https://x.org/y)"
    )
    assert not broken_links(page, good)
    bad = "[a](no.md)\n[b](elimination.md#no)"
    assert broken_links(page, bad) == [(1, "no.md"), (2, "elimination.md#no")]
    assert not missing_paths("`jaxelim/store/`, jaxelim.store.REVISION, ~/.cache/jaxelim/x")
    wrong = "jaxelim/no.py.\njaxelim.store.NO and jaxelim.no.REVISION\ntests/no/"
    assert [one for _, one in missing_paths(wrong)] == [
        "jaxelim/no.py", "jaxelim.store.NO", "jaxelim.no.REVISION", "tests/no/"
    ]  # fmt: skip


def test_pages_are_found():
    assert len(PAGES) >= 8
    assert all((ROOT / folder).is_dir() for folder in FOLDERS)
