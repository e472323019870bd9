"""A call in a notebook's kernel: interrupted there, looked at, and continued.

The kernel is one of Jupyter's, a process that listens on local sockets of files.
"""

import time
from collections.abc import Iterator

import pytest

SETUP = """
import sys
import numpy as np
import jaxelim as je
easy = je.Instance(np.eye(3), [1.0, 0.6, 0.0], name="easy")
def call(runs=4000, **more):
    return je.simulate(easy, je.BestArm(), je.Uniform(), delta=0.1, runs=runs, seed=2,
                       engine=je.Engine(lanes=16, devices=1), **more)
def same(one, other):
    return all(np.array_equal(getattr(one, name), getattr(other, name))
               for name in ("runs", "samples", "pulls", "answer"))
"""
class Kernel:
    """A kernel and the messages of its cells."""

    def __init__(self, manager, client):
        self.manager, self.client = manager, client

    def run(self, code: str, interrupt_at: str = "") -> dict[str, str]:
        """Run a cell; what it shows, by kind: text, html, stream, error.

        Args:
            code: of the cell.
            interrupt_at: interrupt the kernel when a stream has this text.
        """
        asked, shown = self.client.execute(code), dict.fromkeys(("text", "html", "stream"), "")
        end = time.monotonic() + 100
        while time.monotonic() < end:
            message = self.client.get_iopub_msg(timeout=100)
            if message["parent_header"].get("msg_id") != asked:
                continue
            kind, content = message["msg_type"], message["content"]
            if kind == "stream":
                shown["stream"] += content["text"]
                if interrupt_at and interrupt_at in shown["stream"]:
                    self.manager.interrupt_kernel()
                    interrupt_at = ""
            elif kind in ("execute_result", "display_data"):
                shown["text"] += content["data"].get("text/plain", "")
                shown["html"] += content["data"].get("text/html", "")
            elif kind == "error":
                shown["error"] = f"{content['ename']}: {content['evalue']}"
            elif kind == "status" and content["execution_state"] == "idle":
                return shown
        raise AssertionError("the cell did not end")


@pytest.fixture
def kernel(tmp_path) -> Iterator[Kernel]:
    import jupyter_client  # of the extra `docs`, with ipykernel

    manager = jupyter_client.KernelManager(transport="ipc", ip=str(tmp_path / "socket"))
    manager.start_kernel(cwd=str(tmp_path))
    client = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=60)
        kernel = Kernel(manager, client)
        assert "error" not in kernel.run(SETUP)
        yield kernel
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


@pytest.mark.slow
def test_a_call_with_a_store_goes_on(kernel):
    """Finished blocks stay; the same cell goes on from them, to equal numbers."""
    cell = "kept = call(store='runs', block=100, progress=lambda *told: print(told[0], 'over'))\n"
    shown = kernel.run(cell, "300 over")
    assert "runs are in finished blocks. Finished blocks are kept in 'runs'" in shown["error"]
    part = "part = sys.last_value.result\n0 < part.runs.size < 4000"
    assert kernel.run(part)["text"] == "True"
    shown = kernel.run(cell + "kept")
    assert "error" not in shown and int(shown["stream"].split()[0]) >= 100
    assert "<table" in shown["html"]
    assert kernel.run("same(kept, call())")["text"] == "True"
    assert kernel.run("same(part, call(part.runs))")["text"] == "True"
