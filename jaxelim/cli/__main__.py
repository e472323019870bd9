"""`python -m jaxelim.cli`."""

from jaxelim.cli import console

console()
