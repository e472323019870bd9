"""Build the distributions and try the wheel as a stranger would, outside the tree.

The first step that fails ends with its message.
"""

import re
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

CONTRACTS = """
import pathlib, sys
import jaxelim as je
assert pathlib.Path(je.__file__).is_relative_to(sys.prefix), je.__file__
for thing in (je.Uniform(), je.BestArm(), je.Bernoulli(), je.Heuristic()):
    je.testing.check(thing)
"""


def run(*command: str | Path, cwd: Path = ROOT) -> str:
    """The output of a command; its failure ends the check."""
    done = subprocess.run([str(x) for x in command], cwd=cwd, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run(sys.executable, "-m", "build", "--outdir", folder)
        (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
        inside = {one for one in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in one}
        known = set(run("git", "ls-files", "jaxelim").split())
        if inside != known:
            sys.exit(f"the wheel differs from jaxelim/: {sorted(inside ^ known)}")
        print(run(sys.executable, "-m", "twine", "check", "--strict", wheel, sdist))
        venv.create(folder / "env", with_pip=True)
        python = folder / "env" / "bin" / "python"
        run(python, "-m", "pip", "install", "--quiet", wheel, cwd=folder)
        version = run(python.with_name("jaxelim"), "--version", cwd=folder).split()[1]
        if f"version: {version}\n" not in (ROOT / "CITATION.cff").read_text():
            sys.exit(f"CITATION.cff: the version is not {version}")
        block = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
        assert block is not None
        for code in (block.group(1).replace("runs=1000", "runs=50"), CONTRACTS):
            (folder / "script.py").write_text(code)
            print(run(python, folder / "script.py", cwd=folder))


if __name__ == "__main__":
    main()
