"""The site's own code: the build itself is `make docs`."""

import importlib
import inspect
import pkgutil
import re
from pathlib import Path

import jaxelim as je

API = Path(__file__).parents[2] / "docs" / "reference" / "api"
MODULES = (
    "contracts", "families", "figures", "instances", "live", "bounds", "parallel",
    "problems", "stopping", "store", "testing", "thresholds",
)  # fmt: skip


def test_the_reference_has_every_public_name():
    known = set()
    for page in API.glob("*.md"):
        blocks = re.findall(r"```\{names\} ([\w.]+)\n(.*?)\n```", page.read_text(), re.S)
        for module, names in blocks:
            known |= {id(pkgutil.resolve_name(f"{module}.{name}")) for name in names.split()}
    for place in (je, *(importlib.import_module(f"jaxelim.{name}") for name in MODULES)):
        things = {name: getattr(place, name) for name in place.__all__}
        assert not [n for n, x in things.items() if not inspect.ismodule(x) and id(x) not in known]
