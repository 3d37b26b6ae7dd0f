"""Python that runs at awkward moments: destructors, __index__, other threads.

Each case runs in a process of its own, since a fault may crash or hang it.
"""

import subprocess
import sys

import pytest

PRELUDE = "import gc, sys, threading\nimport facula as fa\n"


def run(body):
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + body],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, (done.returncode, done.stderr[-2000:])
    return done.stdout.split()


# ---- lists that change while they are read ----
def test_hook_result_list_cleared_by_a_dying_gradient():
    out = run("""
L = []
class D:
    def __del__(s):
        L.clear(); gc.collect(); s.q = [tuple(range(i, i + 2)) for i in range(1000)]
x = fa.ones(3, requires_grad=True); w = fa.ones(3, requires_grad=True); y = x * w
def h1(gi, go):
    a = fa.ones(3); a.d = D(); return (a, fa.ones(3))
def h2(gi, go):
    L[:] = [fa.ones(3) * 5, fa.ones(3) * 6]; return L
y.grad_fn.register_hook(h1); y.grad_fn.register_hook(h2)
y.sum().backward()
print(w.grad.tolist() == [6.0] * 3)
""")
    assert out == ["True"]


def test_zero_grad_list_cleared_by_a_dying_gradient():
    out = run("""
L = []
class D:
    def __del__(s): L.clear(); gc.collect()
def leaf():
    t = fa.ones(3, requires_grad=True); t.grad = fa.ones(3); t.grad.d = D(); return t
L[:] = [leaf() for _ in range(50)]
fa._C._drop_grads(L)
print(len(L))
""")
    assert out == ["0"]


def test_argument_list_cleared_by_getattr_of_an_element():
    run("""
L = []
class E:
    def __getattr__(s, name):
        L.clear(); gc.collect(); raise AttributeError(name)
for f in (lambda: fa.zeros(L), lambda: fa.ones(2, 2).sum(dim=L), lambda: fa.ones(2, 2).permute(L)):
    L[:] = [E() for _ in range(40)]
    try:
        f()
    except (TypeError, RuntimeError, ValueError):
        pass
""")


def test_array_interface_dict_changed_by_its_own_elements():
    out = run("""
import numpy as np
base = np.arange(6, dtype=np.float32)
D = {}
class I:
    def __init__(s, v): s.v = v
    def __index__(s): D.clear(); gc.collect(); s.q = [str(i) * 5 for i in range(500)]; return s.v
class B:
    def __bool__(s): D.clear(); gc.collect(); return False
class A:
    @property
    def __array_interface__(s):
        D.update(typestr="".join(["<", "f4"]), shape=(I(2), I(3)), strides=(I(12), I(4)),
                 data=(base.ctypes.data, B()), version=3)
        return D
print(fa.asarray(A()).tolist() == [[0, 1, 2], [3, 4, 5]])
""")
    # the strides are gone by the time they are asked for: contiguous ones, the same
    assert out == ["True"]


@pytest.mark.parametrize(
    ("shape", "address", "message"),
    [((3,), 0, "no memory"), ((-1,), 4096, "negative size"), ((2**40, 2**40), 4096, "elements")],
)
def test_array_interface_that_cannot_be(shape, address, message):
    out = run(f"""
class A:
    __array_interface__ = dict(typestr="<f4", shape={shape}, data=({address}, False), version=3)
try:
    fa.asarray(A())
except (ValueError, RuntimeError) as e:
    print({message!r} in str(e))
""")
    assert out == ["True"]


# ---- long chains ----
@pytest.mark.parametrize("attribute", ["pass", "z.tag = 1", "z.before = y"])
def test_long_chain_of_gradients_is_freed(attribute):
    run(f"""
y = fa.ones(2, requires_grad=True)
for i in range(300000):
    z = fa.ones(2, requires_grad=True); z.grad = y; {attribute}; y = z
del y, z
""")


@pytest.mark.parametrize("leave_first", [False, True])
def test_long_chain_of_tangents_is_freed(leave_first):
    run(f"""
from facula.autograd import forward_ad as fwd
with fwd.dual_level():
    x = fa.ones(2)
    for i in range(300000):
        x = fwd.make_dual(fa.ones(2), x)
    if not {leave_first}:
        del x
""")


def test_every_link_of_a_chain_dies_once():
    out = run("""
alive = 0
class D:
    def __init__(s): global alive; alive += 1
    def __del__(s): global alive; alive -= 1
y = fa.ones(2, requires_grad=True)
for i in range(5000):
    z = fa.ones(2, requires_grad=True); z.grad = y; z.d = D(); y = z
print(alive)
del y, z
print(alive)
""")
    assert out == ["5000", "0"]


# ---- gradients that are set while others add ----
def test_grad_is_dropped_in_one_thread_while_another_adds():
    run("""
sys.setswitchinterval(1e-6)
x = fa.ones(1000, requires_grad=True)
bad = []
def work():
    for i in range(1500):
        x.grad = None
        (x * 2).sum().backward()
        g = x.grad
        if g is not None and g.shape != (1000,): bad.append(g.shape)
threads = [threading.Thread(target=work) for _ in range(6)]
for t in threads: t.start()
for t in threads: t.join()
assert not bad
""")


def test_retained_grad_is_dropped_in_one_thread_while_another_adds():
    run("""
sys.setswitchinterval(1e-6)
x = fa.ones(1000, requires_grad=True)
y = x * 2
y.retain_grad()
s = y.sum()
def work():
    for i in range(1500):
        y.grad = None
        s.backward(retain_graph=True)
threads = [threading.Thread(target=work) for _ in range(4)]
for t in threads: t.start()
for t in threads: t.join()
""")


def test_no_addition_of_a_thread_is_lost():
    out = run("""
sys.setswitchinterval(1e-6)
x = fa.zeros(100, requires_grad=True); y = x * 1; y.retain_grad(); s = y.sum()
def work():
    for i in range(500): s.backward(retain_graph=True, create_graph=False)
threads = [threading.Thread(target=work) for _ in range(4)]
for t in threads: t.start()
for t in threads: t.join()
print(x.grad.tolist() == [2000.0] * 100, y.grad.tolist() == [2000.0] * 100)
""")
    assert out == ["True", "True"]


def test_old_gradient_dies_after_the_addition():
    out = run("""
class D:
    def __del__(s): (p * 3).sum().backward()
p = fa.ones(3, requires_grad=True)
g = fa.ones(3); g.k = D(); p.grad = g; del g
(p * 2).sum().backward(create_graph=True)
print(p.grad.tolist())
""")
    assert "".join(out) == "[6.0,6.0,6.0]"  # 1 + 2, then 3 by the old one's destructor


def test_saved_tensor_dies_after_its_node_is_left():
    out = run("""
x = fa.ones(3, requires_grad=True)
class D:
    def __del__(s):
        try:
            c.backward()
        except RuntimeError as e:
            print("a second time" in str(e))
a = x * 1; a.k = D(); b = a * a; c = b.sum()
del a, b
c.backward()
print(x.grad.tolist() == [2.0] * 3)
""")
    assert out == ["True", "True"]


# ---- what is refused, and how ----
def test_subinterpreters_are_refused():
    pytest.importorskip("_xxsubinterpreters")
    for first in ("", "import facula\n"):
        code = f"""{first}import _xxsubinterpreters as si
i = si.create()
try:
    si.run_string(i, "try:\\n import facula\\nexcept ImportError as e:\\n"
                     " assert 'subinterpreter' in str(e), e\\nelse: assert 0")
finally:
    si.destroy(i)
"""
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, (first, done.stderr[-2000:])
