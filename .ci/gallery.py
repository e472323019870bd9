"""Run the blocks of docs/gallery.md and write its figures: `python .ci/gallery.py`.

A block that ends in a figure is followed by the picture's name.
"""

import ast
import re
from pathlib import Path

import matplotlib

DOCS = Path(__file__).resolve().parents[1] / "docs"
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n!\[.*?\]\((gallery/\S+)\))?", re.M | re.S)


def main() -> None:
    matplotlib.use("agg")
    space: dict = {}
    for code, name in BLOCK.findall((DOCS / "gallery.md").read_text()):
        body = ast.parse(code).body
        last = body.pop() if name else None
        exec(compile(ast.Module(body, []), "gallery.md", "exec"), space)
        if isinstance(last, ast.Expr):
            figure = eval(compile(ast.Expression(last.value), "gallery.md", "eval"), space)
            figure.savefig(DOCS / name, dpi=100, metadata={"Software": None})
            print(name, flush=True)


if __name__ == "__main__":
    main()
