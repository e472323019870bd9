"""Links, anchors and paths of the pages lead somewhere; the reference has every name."""

import importlib
import inspect
import pkgutil
import re
from pathlib import Path

import pytest

import jaxelim as je

ROOT = Path(__file__).parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/**/*.md"))]
PATH = r"(?<![\w/.~-])(?:jaxelim|tests|experiments|benchmarks|docs)/(?:[\w-]+/)*(?:\w+\.\w+)?"
WRITTEN = ("benchmarks/results/",)
"""Folders that commands write, which git does not hold."""


def prose(text: str) -> str:
    """A page without its fenced code."""
    return re.sub(r"^ *```.*?^ *```", "", text, flags=re.S | re.M)


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings."""
    found = re.findall(r"^#+ (.*)$", prose(text), re.M)
    return {re.sub(r"[^\w\- ]", "", line.lower()).replace(" ", "-") for line in found}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_and_paths_exist(page):
    text = prose(page.read_text())
    for target in re.findall(r"\]\((?![a-z]+:)([^)\s]+)\)", text):
        name, _, anchor = target.partition("#")
        file = page.parent / name if name else page
        assert file.exists(), target
        assert not anchor or anchor in anchors(file.read_text()), target
    for path in re.findall(PATH, text):
        assert path.startswith(WRITTEN) or (ROOT / path).exists(), path
    for name in re.findall(r"(?<![\w/.])jaxelim(?:\.\w+)+", text):
        module = (ROOT / name.replace(".", "/")).with_suffix(".py")  # some refuse to be imported
        assert module.exists() or pkgutil.resolve_name(name) is not None


MODULES = (
    "contracts", "families", "figures", "instances", "live", "bounds", "parallel",
    "problems", "stopping", "store", "testing", "thresholds",
)  # fmt: skip


def test_the_reference_has_every_public_name():
    known = set()
    for page in (ROOT / "docs" / "reference" / "api").glob("*.md"):
        blocks = re.findall(r"```\{names\} ([\w.]+)\n(.*?)\n```", page.read_text(), re.S)
        for module, names in blocks:
            known |= {id(pkgutil.resolve_name(f"{module}.{name}")) for name in names.split()}
    for place in (je, *(importlib.import_module(f"jaxelim.{name}") for name in MODULES)):
        things = {name: getattr(place, name) for name in place.__all__}
        assert not [n for n, x in things.items() if not inspect.ismodule(x) and id(x) not in known]
