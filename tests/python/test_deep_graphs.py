"""Long chains: no recursion, and memory by the node."""

from __future__ import annotations

import subprocess
import sys

# A million nodes are to go through all of it within 2 GB; so a fifth of them within a fifth.
CODE = """
import resource
import facula as fa
resource.setrlimit(resource.RLIMIT_STACK, (1 << 20, 1 << 20))
def high():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
before = high()
x, w = fa.tensor(1.0, requires_grad=True), fa.tensor(1.0, requires_grad=True)
y = x
for _ in range({nodes}):
    y = y * w
(g,) = fa.autograd.grad(y, x, create_graph=True)
(h,) = fa.autograd.grad(g, w)
assert h.item() == {nodes}, h
del g, y
print((high() - before) / {nodes})
"""


def test_a_node_takes_little() -> None:
    code = CODE.format(nodes=100_000)
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert float(run.stdout) < 1400, "bytes of a node of the chain, with its gradient's"
