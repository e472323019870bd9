"""The paper's experiments, and those beyond it: `python -m experiments table4 --runs 1000`."""

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from experiments import cells, figure1, studies, tables, two_dimensional

COMMANDS: dict[str, tuple[type, Callable[[Any], None]]] = {
    **{name: (tables.TableOptions, partial(tables.make, name)) for name in tables.LAYOUTS},
    "figure1_left": (figure1.Left, figure1.left),
    "figure1_middle": (figure1.Middle, figure1.middle),
    "figure1_right": (figure1.Right, figure1.right),
    "two_dimensional": (two_dimensional.TwoDimensional, two_dimensional.run),
    "studies": (studies.Options, studies.make),
}
"""The options of each experiment, and what runs it."""


def main(arguments: list[str] | None = None) -> int:
    """Run the experiment that the first word names; return the exit code."""
    name, *words = (sys.argv[1:] if arguments is None else arguments) or [""]
    if name not in COMMANDS:
        print(f"{__doc__}\n\nOne of {', '.join(COMMANDS)}; each has --help.", file=sys.stderr)
        return 0 if name in ("-h", "--help") else 2
    kind, act = COMMANDS[name]
    about = tables.LAYOUTS[name].about if name in tables.LAYOUTS else None
    return cells.script(name, kind, act, words, about)


if __name__ == "__main__":
    sys.exit(main())
