"""Build the distributions and try the wheel as a stranger would, outside the tree.

Prints a line a step, and ends with an error at the first that fails.
"""

import email
import re
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

CONTRACTS = """
import pathlib, sys
import jaxelim as je
assert pathlib.Path(je.__file__).is_relative_to(sys.prefix), je.__file__
for check, thing in (
    (je.testing.check_sampling_rule, je.Uniform()), (je.testing.check_problem, je.BestArm()),
    (je.testing.check_family, je.Bernoulli()),
):
    check(thing)
    print("   certified:", thing)
"""


def run(*command: str | Path, cwd: Path = ROOT) -> str:
    """The output of a command; its failure ends the check."""
    done = subprocess.run([str(x) for x in command], cwd=cwd, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def modules() -> set[str]:
    """The package's files under version control."""
    return set(run("git", "ls-files", "jaxelim").split())


def check_content(wheel: Path, sdist: Path) -> str:
    """The wheel holds the package and nothing else; gives its metadata."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        inside = {name for name in names if ".dist-info/" not in name}
        if inside != modules():
            sys.exit(f"the wheel differs from jaxelim/: {sorted(inside ^ modules())}")
        (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        print(f"   {wheel.name}: {len(names)} files, {wheel.stat().st_size} bytes")
        text = archive.read(metadata).decode()
    with tarfile.open(sdist) as archive:
        packed = archive.getnames()
        print(f"   {sdist.name}: {len(packed)} files, {sdist.stat().st_size} bytes")
    for path, inside in ((wheel, names), (sdist, packed)):
        if not any(name.endswith("/LICENSE") for name in inside):
            sys.exit(f"{path.name} has no LICENSE")
    return text


def check_metadata(text: str, version: str) -> None:
    found = email.message_from_string(text)
    known = {"Name": "jaxelim", "Version": version, "Requires-Python": ">=3.11",
             "License-Expression": "Apache-2.0"}  # fmt: skip
    for name, value in known.items():
        if found[name] != value:
            sys.exit(f"metadata: {name} is {found[name]!r}, not {value!r}")
    for name in ("Summary", "Keywords", "Classifier", "Author"):
        if not found[name]:
            sys.exit(f"metadata: no {name}")
    if f"version: {version}\n" not in (ROOT / "CITATION.cff").read_text():
        sys.exit(f"CITATION.cff: the version is not {version}")
    relative = re.findall(r"\]\((?!https?:|#)[^)]+\)", found.get_payload())
    if relative:
        sys.exit(f"README: relative links in the metadata: {relative}")
    print(f"   jaxelim {version}; {len(found.get_all('Requires-Dist') or ())} requirements")


def try_wheel(wheel: Path, folder: Path, version: str) -> None:
    """The README's first block, the command line and the contract checks, in a new environment."""
    venv.create(folder / "env", with_pip=True)
    python = folder / "env" / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", wheel, cwd=folder)
    if run(python.with_name("jaxelim"), "--version", cwd=folder).strip() != f"jaxelim {version}":
        sys.exit("jaxelim --version differs")
    block = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    assert block is not None
    start = folder / "quick_start.py"
    start.write_text(block.group(1).replace("runs=1000", "runs=50"))
    print(run(python, start, cwd=folder))
    contracts = folder / "contracts.py"
    contracts.write_text(CONTRACTS)
    print(run(python, contracts, cwd=folder), end="")


def main() -> None:
    version = re.search(r'__version__ = "(.*?)"', (ROOT / "jaxelim/__init__.py").read_text())
    assert version is not None
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        print("building")
        run(sys.executable, "-m", "build", "--outdir", folder)
        (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
        print("content and metadata")
        check_metadata(check_content(wheel, sdist), version.group(1))
        print("rendering")
        print("  ", run(sys.executable, "-m", "twine", "check", "--strict", wheel, sdist).strip())
        print("a fresh environment")
        try_wheel(wheel, folder, version.group(1))
    print("release check passed")


if __name__ == "__main__":
    main()
