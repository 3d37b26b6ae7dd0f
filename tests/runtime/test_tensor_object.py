"""One Python object per tensor, through the tensor's life."""

import copy
import gc
import io
import pickle
import threading
import weakref

import facula as fa
import pytest


def leaf(values, kind=fa.Tensor):
    data = fa.tensor(values, dtype=fa.float64)
    return fa.Tensor._make_subclass(kind, data, True)


class Tagged(fa.Tensor):
    pass


class Slotted(fa.Tensor):
    __slots__ = ("tag",)


class Counted(fa.Tensor):
    deleted = 0

    def __del__(self):
        Counted.deleted += 1


def test_wrapping_twice_gives_the_same_object():
    x = leaf([1.0, 2.0])
    (x * x).sum().backward()
    assert x.grad is x.grad
    y = x * x
    assert y.grad_fn.next_functions[0][0].variable is x


def test_attributes_survive_while_cpp_holds_the_tensor():
    x = leaf([1.0, 2.0], Tagged)
    x.tag = [5]
    identity = id(x)
    y = x * x
    ref = weakref.ref(x)
    del x
    gc.collect()
    back = y.grad_fn.next_functions[0][0].variable
    assert type(back) is Tagged and back.tag == [5] and id(back) == identity
    assert ref() is back
    del back
    gc.collect()
    assert ref() is not None
    del y
    gc.collect()
    assert ref() is None


def test_object_made_strong_by_a_weak_reference_outlives_cpp():
    x = leaf([1.0, 2.0], Tagged)
    x.tag = 7
    y = x * x
    ref = weakref.ref(x)
    del x
    back = ref()
    del y  # C++ drops its last reference while only Python holds the object
    gc.collect()
    assert back.tag == 7 and back.tolist() == [1.0, 2.0] and back.requires_grad
    (back * back).sum().backward()
    assert back.grad.tolist() == [2.0, 4.0]
    del back
    assert ref() is None


@pytest.mark.parametrize("times", [1, 2, 5])
def test_resurrection_many_times(times):
    x = leaf([3.0], Tagged)
    x.tag = "t"
    y = x * x
    del x
    for _ in range(times):
        back = y.grad_fn.next_functions[0][0].variable
        assert back.tag == "t"
        del back
        gc.collect()


def test_slots_survive():
    x = leaf([3.0], Slotted)
    x.tag = 4
    y = x * x
    del x
    assert y.grad_fn.next_functions[0][0].variable.tag == 4


def test_finalizer_of_a_subclass_runs_once():
    Counted.deleted = 0
    x = leaf([3.0], Counted)
    y = x * x  # of the class, too
    del x, y
    gc.collect()
    assert Counted.deleted == 2


def test_grad_keeps_its_attributes():
    x = leaf([3.0])
    (x * x).sum().backward()
    x.grad.note = "kept"
    gc.collect()
    assert x.grad.note == "kept"


def test_subclass_basics():
    x = leaf([1.0], Tagged)
    assert isinstance(x, fa.Tensor) and isinstance(x, Tagged)
    assert type(x + x) is Tagged
    assert hash(x) == hash(x) and {x: 1}[x] == 1
    assert x.__dict__ == {}


def test_cycles_through_attributes_and_hooks_are_collected():
    x = leaf([1.0], Tagged)
    x.me = x
    x.register_hook(lambda g, x=x: None)
    x.register_post_accumulate_grad_hook(lambda t, x=x: None)
    (x * x).sum().backward()
    ref = weakref.ref(x)
    del x
    gc.collect()
    assert ref() is None


def test_cycles_are_kept_while_cpp_needs_them():
    x = leaf([1.0], Tagged)
    x.me = x
    seen = []
    x.register_hook(lambda g, x=x: seen.append(x.me is x))
    y = (x * x).sum()
    del x
    for _ in range(3):
        gc.collect()
    y.backward()
    assert seen == [True]


def test_old_constructor():
    assert fa.Tensor([1, 2]).dtype is fa.get_default_dtype()
    assert fa.Tensor(2, 3).shape == (2, 3)
    assert fa.Tensor(fa.Size([4])).shape == (4,)
    assert fa.Tensor().shape == (0,)
    assert type(Tagged([1.0])) is Tagged
    with pytest.raises(ValueError, match="at least 0"):
        fa.Tensor(-1)


def test_threads_drop_tensors_while_backward_runs():
    errors = []

    def work():
        try:
            for _ in range(200):
                x = leaf([1.0, 2.0], Tagged)
                x.tag = 1
                y = (x * x).sum()
                ref = weakref.ref(x)
                del x
                y.backward()
                back = ref()
                assert back is None or back.tag == 1
        except BaseException as e:
            errors.append(e)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors


# ---- copies ----
@pytest.mark.parametrize("dtype", ["bool", "int64", "bfloat16", "float16", "float64", "complex64"])
@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_pickle(dtype, protocol):
    x = fa.tensor([[0, 1], [1, 0]], dtype=getattr(fa, dtype))
    y = pickle.loads(pickle.dumps(x, protocol))
    assert y.tolist() == x.tolist() and y.dtype is x.dtype and y.shape == x.shape


def test_pickle_of_a_view_holds_only_its_elements():
    big = fa.tensor([float(i) for i in range(10000)])
    part = big[5:8]
    assert len(pickle.dumps(part)) < 500
    assert pickle.loads(pickle.dumps(part)).tolist() == [5.0, 6.0, 7.0]
    column = fa.tensor([[1.0, 2.0], [3.0, 4.0]])[:, 1]
    assert pickle.loads(pickle.dumps(column)).tolist() == [2.0, 4.0]


def again(things, protocol=None):
    return pickle.loads(pickle.dumps(things, protocol))


@pytest.mark.parametrize("protocol", [0, 2, 5])
def test_pickle_of_an_expanded_tensor_holds_what_it_is_made_of(protocol):
    x = fa.rand(1).expand(10**6)
    assert len(pickle.dumps(x, protocol)) < 700
    y = again(x, protocol)
    assert y.shape == x.shape and y.stride() == (0,) and y[-1].item() == x[0].item()
    rows = fa.arange(3.0)[:, None].expand(3, 1000)
    assert len(pickle.dumps(rows, protocol)) < 800 and again(rows, protocol).equal(rows)
    sparse = fa.arange(10000.0)[::1000]  # its elements, not what is between them
    assert len(pickle.dumps(sparse, protocol)) < 700
    assert again(sparse, protocol).tolist() == sparse.tolist()


def test_pickle_keeps_shared_memory():
    b = fa.arange(6.0)
    grid = b.view(2, 3)
    for things in ([b, b[1:]], [b[1:], b], [b, grid.t()], [grid[:, 1:], b], [b, b.detach(), b]):
        twins = again(things)
        assert [t.tolist() for t in things] == [t.tolist() for t in twins]
        assert [t.stride() for t in things] == [t.stride() for t in twins]
        twins[0].fill_(9)
        with fa.no_grad():
            assert (twins[1] == 9).sum() == min(t.numel() for t in twins[:2])
        assert b.tolist() == [0, 1, 2, 3, 4, 5]
    # as much as was written before it is shared, what is beyond is the tensor's own
    first, whole = again([b[:1], b])
    first.fill_(9)
    assert whole.tolist() == b.tolist()
    p, q = again([leaf([1.0, 2.0]), leaf([3.0])])
    assert p.requires_grad and p.is_leaf and p._base is None and q.tolist() == [3]
    assert again(fa.zeros(3)).resize_(5).shape == (5,)


def test_pickles_are_apart_in_time():
    """What a tensor holds is written when it is pickled, and nothing of it is kept."""
    x = fa.zeros(3)
    assert again(x).tolist() == [0, 0, 0]
    x.fill_(1)
    assert again(x).tolist() == [1, 1, 1]
    pickler = pickle.Pickler(io.BytesIO())
    pickler.dump(x)
    x.fill_(2)  # the pickler still has x
    assert again([x[1:], x])[1].tolist() == [2, 2, 2]


@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (1, 1)])
def test_pickle_of_odd_shapes(shape):
    for x in (fa.ones(shape), fa.ones(shape).to("meta")):
        y = again(x)
        assert y.shape == x.shape and y.stride() == x.stride() and y.device == x.device
    assert again(fa.zeros(4, 0)[1:3]).shape == (2, 0)


def test_pickle_keeps_attributes_and_grad_flag():
    x = leaf([1.0])
    x.note = "n"
    y = pickle.loads(pickle.dumps(x))
    assert y.requires_grad and y.note == "n"
    z = pickle.loads(pickle.dumps(x * 3))
    assert z.tolist() == [3.0] and z.requires_grad and z.is_leaf


def test_pickle_of_bad_data_raises():
    rebuild = fa._C._rebuild_tensor
    with pytest.raises(ValueError, match="8 bytes are needed"):
        rebuild(fa.Tensor, b"abc", (2,), fa.float32, "cpu", False)
    with pytest.raises(ValueError, match="negative"):
        rebuild(fa.Tensor, b"", (-2,), fa.float32, "cpu", False)


def test_deepcopy_keeps_shared_memory():
    a = fa.arange(4)
    square = a.view(2, 2)
    for things in ([a, square], (square.t(), {"a": a}), [a[1:], a[::2], a.detach(), a.data]):
        twins = copy.deepcopy(things)
        old, new = list(flat(things)), list(flat(twins))
        assert [t.tolist() for t in old] == [t.tolist() for t in new]
        assert [t.stride() for t in old] == [t.stride() for t in new]
        first = min(t.data_ptr() - t.storage_offset() * t.element_size() for t in new)
        for t in new:
            assert t.data_ptr() == first + t.storage_offset() * t.element_size()
            assert abs(t.data_ptr() - a.data_ptr()) >= 32
        new[0].fill_(7)
        assert a.tolist() == [0, 1, 2, 3] and 7 in new[1].reshape(-1).tolist()
    x = fa.ones(3, requires_grad=True)
    x.grad = fa.zeros(3)
    copied, grad = copy.deepcopy([x, x.grad])
    assert copied.grad is grad and grad is not x.grad
    floats = fa.arange(4.0)
    p, q = copy.deepcopy([floats, floats.view(fa.int32)])
    p[0] = 1.0
    assert q[0] == 0x3F800000
    meta = fa.zeros(3, device="meta")
    assert [t.shape for t in copy.deepcopy([meta, meta[1:]])] == [(3,), (2,)]


def flat(things):
    if isinstance(things, fa.Tensor):
        yield things
    else:
        for thing in things.values() if isinstance(things, dict) else things:
            yield from flat(thing)


def test_deepcopy():
    x = leaf([1.0, 2.0], Tagged)
    x.note = [1]
    (x * x).sum().backward()
    y, again = copy.deepcopy([x, x])
    assert y is again and type(y) is Tagged and y.requires_grad
    assert y.grad.tolist() == x.grad.tolist() and y.grad is not x.grad
    assert y.note == [1] and y.note is not x.note
    assert y.data_ptr() != x.data_ptr()
    with pytest.raises(RuntimeError, match="clone"):
        copy.deepcopy(x * x)


def test_copy_shares_memory():
    x = leaf([1.0, 2.0], Tagged)
    y = copy.copy(x)
    assert type(y) is Tagged and y.data_ptr() == x.data_ptr() and y.requires_grad and y is not x


# ---- cycles ----
class KeepsOutput(fa.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.result = x * 1
        return ctx.result

    @staticmethod
    def backward(ctx, g):
        return g


def cycle_of_attribute(x):
    y = x * 2
    y.bar = y
    return y


def cycle_of_saved_output(x):
    y = x.exp()
    y.bar = y
    return y


def cycle_of_leaf_hook(x):
    x.register_hook(lambda g, x=x: None)
    return x


def cycle_of_post_hook(x):
    x.register_post_accumulate_grad_hook(lambda p, x=x: None)
    return x


def cycle_of_tensor_hook(x):
    y = x * 2
    y.register_hook(lambda g, y=y: None)
    return y


def cycle_of_node_hook(x):
    y = x * 2
    y.grad_fn.register_hook(lambda a, b, y=y: None)
    return y


def cycle_of_context(x):
    return KeepsOutput.apply(x)


def cycle_of_dict(x):
    vars(x)["me"] = x
    return x


def cycle_of_copy(x):
    x.box = []
    y = copy.copy(x)
    x.box.append(y)
    return y


@pytest.mark.parametrize(
    "make", [f for name, f in sorted(globals().items()) if name.startswith("cycle_of_")]
)
def test_cycles_through_plain_tensors_are_collected(make):
    y = make(fa.ones(3, requires_grad=True))
    ref = weakref.ref(y)
    del y
    gc.collect()
    assert ref() is None


@pytest.mark.parametrize(
    "make", [f for name, f in sorted(globals().items()) if name.startswith("cycle_of_")]
)
def test_cycles_that_cpp_holds_are_kept(make):
    y = make(fa.ones(3, requires_grad=True))
    ref, identity = weakref.ref(y), id(y)
    z = y * y
    del y
    for _ in range(3):
        gc.collect()
    assert ref() is not None and id(ref()) == identity
    z.sum().backward()
    del z
    gc.collect()
    assert ref() is None


def test_plain_tensors_are_unknown_to_the_collector():
    x = fa.ones(3, requires_grad=True)
    y = (x * 2).sum()
    assert not gc.is_tracked(x) and not gc.is_tracked(y)
    y.name_of_mine = 1
    assert gc.is_tracked(y)
    del y
    assert not gc.is_tracked(fa.ones(2))


def test_class_of_a_tensor_may_change_and_change_back():
    for _ in range(300):
        x = fa.ones(2)
        try:
            x.__class__ = Tagged
        except TypeError:
            return
        x.__class__ = fa.Tensor
        del x
    tensors = [fa.ones(2) for _ in range(300)]
    gc.collect()
    assert sum(t.sum().item() for t in tensors) == 600
