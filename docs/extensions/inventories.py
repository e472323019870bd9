"""Inventories of other packages' pages, for links from types, without the network.

`inventories.txt` holds the names in use; `written` turns it into the files that
intersphinx reads. A line is a domain role, a name and a page, under its package's address.
"""

import zlib
from pathlib import Path

HEAD = "# Sphinx inventory version 2\n# Project: {}\n# Version: \n# zlib compressed.\n"


def parsed() -> dict[str, tuple[str, list[str]]]:
    """{package: (address, lines of its inventory)}."""
    found: dict[str, tuple[str, list[str]]] = {}
    lines: list[str] = []
    for line in Path(__file__).with_suffix(".txt").read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        if "://" in line:
            package, address = line.split()
            lines = []
            found[package] = (address, lines)
        else:
            role, name, page = line.split()
            lines.append(f"{name} {role} 1 {page} -")
    return found


def written(folder: Path) -> dict[str, tuple[str, str]]:
    """Write the inventories into a folder; gives `intersphinx_mapping`."""
    folder.mkdir(parents=True, exist_ok=True)
    mapping = {}
    for package, (address, lines) in parsed().items():
        file = folder / f"{package}.inv"
        body = zlib.compress("".join(f"{line}\n" for line in lines).encode())
        file.write_bytes(HEAD.format(package).encode() + body)
        mapping[package] = (address, str(file))
    return mapping
