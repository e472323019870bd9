"""Parts of pages that are made from the code at the build, in place of `<!-- generated: .. -->`
and of the line below it, for readers of the source.

- `names KIND`: a page of the reference, from `public.KINDS`.
- `command line`: what `--help` prints, for every command.
- `errors`: the tree of exceptions.
- `file NAME`: a page at the root of the repository.
"""

import ast
import contextlib
import functools
import inspect
import io
import itertools
import os
import re
from pathlib import Path
from unittest import mock

import docstrings
import public

from jaxelim import cli, errors

ROOT = Path(__file__).resolve().parents[2]

MARK = re.compile(r"^<!-- generated: (.+?) -->\n\*.+\*$", re.M)
WIDTH = 88


def fenced(text: str, kind: str) -> str:
    return f"```{kind}\n{text}\n```"


def first_line(path: str) -> str:
    """The first sentence of a docstring, on one line."""
    thing = public.found(path)
    documented = isinstance(thing, type) or inspect.isroutine(thing)
    text = inspect.getdoc(thing) if documented else constants()[path.rsplit(".", 1)[1]]
    paragraph = (text or "").split("\n\n")[0]
    return re.split(r"(?<=\.)\s", " ".join(paragraph.split()) + " ")[0].strip()


@functools.cache
def constants() -> dict[str, str]:
    """The docstrings below assignments, by name, of all modules of jaxelim."""
    found = {}
    for file in (ROOT / "jaxelim").rglob("*.py"):
        body = ast.parse(file.read_text()).body
        for one, below in itertools.pairwise(body):
            text = getattr(getattr(below, "value", None), "value", None)
            if isinstance(one, ast.Assign) and isinstance(text, str):
                for name in ast.walk(one.targets[0]):
                    if isinstance(name, ast.Name):
                        found[name.id] = text
    return found


def directive(path: str) -> str:
    """How autodoc shows a name."""
    thing = public.found(path)
    if isinstance(thing, type) and issubclass(thing, BaseException):
        return f".. autoexception:: {path}\n   :members:\n"
    if isinstance(thing, type):
        return f".. autoclass:: {path}\n   :members:\n"
    if inspect.isroutine(thing):
        return f".. autofunction:: {path}\n"
    module, name = path.rsplit(".", 1)
    text = docstrings.rewritten(constants()[name].split("\n"))
    value = f"   :value: {thing!r}\n" if isinstance(thing, int) else ""
    body = "".join(f"   {line}\n" for line in text)
    return f".. py:data:: {name}\n   :module: {module}\n{value}\n{body}"


def names(kind: str) -> str:
    """A table of the names of a kind, and each with its docstring."""
    rows, bodies = ["| name | |", "|---|---|"], [".. py:currentmodule:: jaxelim\n"]
    for part in public.KINDS[kind]:
        for path in public.paths(part):
            line = first_line(path).replace("|", r"\|")
            rows.append(f"| {{py:obj}}`{path.removeprefix('jaxelim.')} <{path}>` | {line} |")
            bodies.append(directive(path))
    return "\n".join(rows) + "\n\n" + fenced("\n".join(bodies), "{eval-rst}")


def help_of(*words: str) -> str:
    """What `jaxelim WORDS --help` prints."""
    out = io.StringIO()
    with mock.patch.dict(os.environ, {"COLUMNS": str(WIDTH), "NO_COLOR": "1"}):
        with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
            cli.main([*words, "--help"])
    return re.sub(r"\x1b\[[0-9;]*m| +$", "", out.getvalue(), flags=re.M).strip()


def commands(text: str) -> list[str]:
    """The subcommands that a command's usage names."""
    found = re.search(r"\{([\w,-]+)\}", text.split("\n\n")[0])
    return found.group(1).split(",") if found else []


def command_line() -> str:
    """A section for each command."""
    top = help_of()
    made = [fenced(top, "console")]
    for name in commands(top):
        text = help_of(name)
        made += [f"## jaxelim {name}", fenced(text, "console")]
        for inner in commands(text) if name == "live" else []:
            made += [f"### jaxelim {name} {inner}", fenced(help_of(name, inner), "console")]
    return "\n\n".join(made)


def tree() -> str:
    """The exceptions, each under its base, with the first sentence of its docstring."""
    kinds = [
        one
        for name, one in vars(errors).items()
        if isinstance(one, type) and issubclass(one, BaseException) and not name.startswith("_")
    ]

    def bases(kind: type) -> tuple[str, ...]:
        return tuple(one.__name__ for one in reversed(kind.__mro__) if one in kinds)

    rows = ["| exception | also | |", "|---|---|---|"]
    for kind in sorted(kinds, key=bases):
        depth = "&nbsp;" * 4 * (len(bases(kind)) - 1)
        builtin = next(one for one in kind.__mro__ if one.__module__ == "builtins")
        also = "" if builtin is Exception else f"{{py:obj}}`{builtin.__name__}`"
        rows.append(
            f"| {depth}{{py:obj}}`{kind.__name__} <jaxelim.{kind.__name__}>` | {also} "
            f"| {first_line(f'jaxelim.{kind.__name__}')} |"
        )
    return "\n".join(rows)


def made(words: str) -> str:
    """The text of a mark."""
    if words.startswith("names "):
        return names(words.removeprefix("names "))
    if words.startswith("file "):
        text = (ROOT / words.removeprefix("file ")).read_text()
        return re.sub(r"\]\(docs/", "](/", text)
    return {"command line": command_line, "errors": tree}[words]()


WIDE = ("results/", "reference/rules", "reference/performance-reference", "explanation/history")
"""Pages that are mostly wide tables."""

OUTSIDE = {
    "CHANGELOG.md": "/reference/changelog.md",
    "CONTRIBUTING.md": "/reference/contributing.md",
}
"""Files at the root of the repository that are pages of the site."""


def read(app, name, source):
    """Sphinx's event: complete a page's text."""
    source[0] = MARK.sub(lambda mark: made(mark.group(1)), source[0])
    for file, page in OUTSIDE.items():
        source[0] = re.sub(rf"\]\((?:\.\./)*{re.escape(file)}", f"]({page}", source[0])


def complete(app):
    """Refuse to build a reference without a public name."""
    lost = public.missing()
    if lost:
        raise RuntimeError(f"docs/extensions/public.py: no page has {sorted(lost)}")


def tidy(app, failed):
    """Remove pages of an earlier build whose sources are gone."""
    if not failed and app.builder.name == "html":
        made = {f"{page}.html" for page in app.env.found_docs} | {"genindex.html", "search.html"}
        for file in Path(app.outdir).rglob("*.html"):
            name = file.relative_to(app.outdir).as_posix()
            if name not in made and not name.startswith("_"):
                file.unlink()


def widen(app, page, template, context, tree):
    """Sphinx's event: pages of wide tables have no list of headings beside them."""
    if page.startswith(WIDE):
        context["furo_hide_toc"] = True


def setup(app):
    app.connect("html-page-context", widen, priority=900)
    app.connect("builder-inited", complete)
    app.connect("build-finished", tidy)
    app.connect("source-read", read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
