"""What the site needs beside Sphinx: docstrings, formulas, and the command line's help."""

import ast
import contextlib
import dataclasses
import functools
import inspect
import io
import os
import pkgutil
import re
from unittest import mock

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from numpy.typing import ArrayLike

from jaxelim import cli

# Docstrings: prose with names in backticks, $...$, $$ blocks, fields' comments, Args and Raises.

KEPT = re.compile(
    r"(`[^`]+`|^ *\$\$$.*?^ *\$\$$|\$[^$]+\$|^ *>>> .*?(?=^ *$|\Z)|^::\n(?:\n| {4}[^\n]*\n?)+)",
    re.S | re.M,
)
ESCAPED = re.compile(r"[\\*|]|(?<=\w)_(?!\w)")
RETURNS = re.compile(r"^(Returns|Yields):\n +", re.M)
AFTER_TEXT = re.compile(r"^(?! *- )(.*\S)\n(?= *- )", re.M)  # a list needs an empty line before it


def marked(part: str) -> str:
    """A part of a docstring as reStructuredText, whose code and formulas are apart."""
    if part.lstrip().startswith("$$"):
        margin = re.match(" *", part).group()
        body = part.strip(" $\n").replace("\n", f"\n{margin}")
        return f"\n{margin}.. math::\n\n{margin}   {body}\n"
    if part.startswith("$"):
        return f":math:`{part[1:-1]}`"
    return part if KEPT.fullmatch(part) else ESCAPED.sub(r"\\\g<0>", part)


@functools.cache
def source(module: object) -> str:
    return inspect.getsource(module)


def comments(kind: type) -> dict[str, str]:
    """The comments at the ends of a dataclass's lines, by field."""
    text = source(inspect.getmodule(kind))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ClassDef) and node.name == kind.__name__:
            fields = [one for one in node.body if isinstance(one, ast.AnnAssign)]
            ends = ((one, text.split("\n")[one.end_lineno - 1]) for one in fields)
            found = {one.target.id: line[one.end_col_offset :].strip() for one, line in ends}
            return {k: x[2:] for k, x in found.items() if x.startswith("# ") and "noqa" not in x}
    return {}


def docstring(app, what, name, thing, options, lines):
    """Sphinx's event, before napoleon's: rewrite `lines`."""
    text = "" if what == "module" else "\n".join(lines)
    if what == "class" and dataclasses.is_dataclass(thing):
        said = set(re.findall(r"^\s+([\w, ]+):", text, re.M))
        more = [f"    {k}: {x}" for k, x in comments(thing).items() if k not in said]
        text += "\n".join(["\nAttributes:", *more, ""] if more else [])
    text = AFTER_TEXT.sub(r"\1\n\n", RETURNS.sub(lambda x: f":{x[1].lower()}: ", text))
    lines[:] = "".join(map(marked, KEPT.split(text))).split("\n")


class Like:
    """Stands for NumPy's ArrayLike, which is a long union."""


Like.__name__ = Like.__qualname__ = "ArrayLike"
Like.__module__ = "numpy.typing"


def shorten(app, thing, bound):
    """Sphinx's event: name ArrayLike in signatures."""
    for name, kind in getattr(thing, "__annotations__", {}).items():
        if kind in (ArrayLike, ArrayLike | None):
            thing.__annotations__[name] = Like if kind == ArrayLike else Like | None


# Formulas as MathML, which browsers draw themselves: no script, no font, no other host.


def inline(translator, node):
    translator.body.append(str(tex2mathml(node.astext(), as_block=False)))
    raise nodes.SkipNode


def block(translator, node):
    made = tex2mathml(node.astext(), as_block=True)
    translator.body.append(f'<div class="formula" tabindex="0">{made}</div>')
    raise nodes.SkipNode


# The command line's help, in place of `<!-- command line -->`.


def help_of(*words: str) -> str:
    """What `jaxelim WORDS --help` prints."""
    out = io.StringIO()
    with mock.patch.dict(os.environ, {"COLUMNS": "88", "NO_COLOR": "1"}):
        with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
            cli.main([*words, "--help"])
    return re.sub(r"\x1b\[[0-9;]*m| +$", "", out.getvalue(), flags=re.M).strip()


def command_line(*words: str) -> str:
    """The help of a command, and a section for each of its own commands."""
    text = help_of(*words)
    made = [f"{'#' * (len(words) + 1)} jaxelim {' '.join(words)}"] if words else []
    made.append(f"```console\n{text}\n```")
    inner = re.search(r"\{([\w,-]+)\}", text.split("\n\n")[0])
    if inner and words in ((), ("live",), ("instances",)):
        made += [command_line(*words, name) for name in inner.group(1).split(",")]
    return "\n\n".join(made)


# Public names, in place of the block ```{names} MODULE, which lists them, with dots for more.

NAMES = re.compile(r"```\{names\} ([\w.]+)\n(.*?)\n```", re.S)


def documented(found: re.Match) -> str:
    """The names of a block, each with its docstring."""
    made = []
    for name in found[2].split():
        thing = pkgutil.resolve_name(f"{found[1]}.{name}")
        kind = "function" if inspect.isroutine(thing) else "data"
        if isinstance(thing, type):
            kind = "exception" if issubclass(thing, BaseException) else "class"
        made.append(f".. auto{kind}:: {found[1]}.{name}\n" + "   :members:\n" * (kind == "class"))
    return "```{eval-rst}\n.. py:currentmodule:: jaxelim\n\n" + "\n".join(made) + "\n```"


def page(app, name, text):
    """Sphinx's event: complete a page's text."""
    text[0] = NAMES.sub(documented, text[0])
    if "<!-- command line -->" in text[0]:
        text[0] = text[0].replace("<!-- command line -->", command_line())


def setup(app):
    app.connect("autodoc-process-docstring", docstring, priority=400)
    app.connect("autodoc-before-process-signature", shorten)
    app.connect("source-read", page)
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
