"""`python -m jaxelim`."""

from jaxelim.cli import console

console()
