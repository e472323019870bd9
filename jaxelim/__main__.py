"""`python -m jaxelim`."""

import runpy

runpy.run_module("jaxelim.cli", run_name="__main__")
