"""Docstrings of the house, as reStructuredText: names in backticks, formulas, comments on fields.

napoleon then reads the sections (Args, Raises, ..).
"""

import ast
import dataclasses
import functools
import inspect
import re
import textwrap

import plain
import public
from numpy.typing import ArrayLike
from sphinx.ext.napoleon import Config, GoogleDocstring

SECTION = re.compile(r"^(Args|Returns|Raises|Warns|Yields|Example|Examples|Attributes):\s*$")
FORMULA = re.compile(r"^(?!- )[^.`]{1,40} = ")
SENTENCES = re.compile(r"[.)] +[A-Z(][a-z]|`")
CODE = re.compile(r"`([^`]+)`")


def linked(code: str) -> str:
    """A name as a link if the reference has it, else as code."""
    code = " ".join(code.split())
    found = public.target(code)
    return f":py:obj:`{code} <{found}>`" if found else f"``{code}``"


def escaped(text: str) -> str:
    """Prose without markup of its own: `*`, `|`, `\\` and a trailing `_` stand for themselves."""
    text = re.sub(r"([\\*|])", r"\\\1", text)
    return re.sub(r"(?<=\w)_(?!\w)", r"\\_", text)


def marked(text: str) -> str:
    """Prose with the names in backticks linked, and everything else escaped."""
    parts = CODE.split(text)
    return "".join(linked(part) if at % 2 else escaped(part) for at, part in enumerate(parts))


def paragraphs(lines: list[str]) -> list[list[str]]:
    """Lines in groups, divided by empty lines and headings of sections."""
    groups: list[list[str]] = [[]]
    for line in lines:
        if not line.strip():
            groups.append([])
        elif SECTION.match(line):
            groups += [[line], []]
        else:
            groups[-1].append(line)
    return [group for group in groups if group]


def is_formula(lines: list[str]) -> bool:
    """Whether a paragraph is formulas, whose lines and spaces stay."""
    if all(line.startswith("    ") for line in lines):
        return True
    return bool(FORMULA.match(lines[0])) and not SENTENCES.search("\n".join(lines))


def one_paragraph(lines: list[str], section: str) -> list[str]:
    """A paragraph as reStructuredText."""
    if lines[0].lstrip().startswith(">>>"):
        return lines
    if not section and is_formula(lines):
        body = textwrap.dedent("\n".join(lines))
        if plain.block(body):
            return [".. code-block:: text", "", *textwrap.indent(body, "   ").split("\n")]
        return [f"| {line}" for line in marked(body).split("\n")]  # with words between
    text = "\n".join(lines)
    if section == "Args":  # names over two lines
        text = re.sub(r"^( +[\w, ]+,)\n +(?=[\w, ]+:)", r"\1 ", text, flags=re.M)
    made: list[str] = []
    for line in marked(text).split("\n"):
        bullet, before = line.lstrip().startswith("- "), made[-1].lstrip() if made else ""
        if bullet and before and not before.startswith("- ") and not made[-1].startswith("  "):
            made.append("")
        made.append(line)
    return made


def rewritten(lines: list[str]) -> list[str]:
    """A docstring as reStructuredText with napoleon's sections."""
    made: list[str] = []
    section = ""
    for group in paragraphs(lines):
        heading = SECTION.match(group[0])
        if heading:
            section = heading.group(1)
            if section not in ("Returns", "Yields"):
                made += ["", *group]
            continue
        if section and not group[0].startswith(" "):
            section = ""
        if section in ("Returns", "Yields"):
            first, *rest = textwrap.dedent("\n".join(group)).split("\n")
            field = marked("\n".join([first, *("   " + line for line in rest)])).split("\n")
            made += ["", f":{section.lower()}: {field[0]}", *field[1:], ""]
            continue
        if made and SECTION.match(made[-1]):
            made += one_paragraph(group, section)
        else:
            made += ["", *one_paragraph(group, section if made else "summary")]
    return [*made[1:], ""] if made and not made[0] else [*made, ""]


@functools.cache
def source_of(module: object) -> str:
    return inspect.getsource(module)


def field_notes(kind: type) -> dict[str, str]:
    """The comments at the ends of a dataclass's lines, by field."""
    if not dataclasses.is_dataclass(kind):
        return {}
    text = source_of(inspect.getmodule(kind))
    lines = text.split("\n")
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ClassDef) and node.name == kind.__name__:
            notes = {}
            for one in node.body:
                if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name):
                    rest = lines[one.end_lineno - 1][one.end_col_offset :].strip()
                    if rest.startswith("# ") and "noqa" not in rest:
                        notes[one.target.id] = rest[2:]
            return notes
    return {}


def process(app, what, name, obj, options, lines):
    """Sphinx's event: rewrite `lines` in place."""
    made = rewritten(list(lines))
    if what in ("attribute", "property"):  # one sentence; napoleon would look for a type in it
        lines[:] = made
        return
    made = GoogleDocstring(made, Config(napoleon_use_ivar=True), app, what, name, obj).lines()
    if what == "class":
        said = set(re.findall(r"^\s+([\w, ]+):", "\n".join(lines), re.M))
        notes = {k: v for k, v in field_notes(obj).items() if k not in said}
        made += ["", *(f":ivar {key}: {marked(note)}" for key, note in notes.items())]
    lines[:] = [*made, ""]


class Like:
    """Stands for NumPy's ArrayLike, which is a long union."""


Like.__name__ = Like.__qualname__ = "ArrayLike"
Like.__module__ = "numpy.typing"


def shorten(app, obj, bound):
    """Sphinx's event: name ArrayLike in signatures."""
    for name, kind in getattr(obj, "__annotations__", {}).items():
        if kind == ArrayLike:
            obj.__annotations__[name] = Like
        elif kind == ArrayLike | None:
            obj.__annotations__[name] = Like | None


def setup(app):
    app.connect("autodoc-process-docstring", process)
    app.connect("autodoc-before-process-signature", shorten)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
