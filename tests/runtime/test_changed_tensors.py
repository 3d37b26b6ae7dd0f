"""What is said of a saved tensor that was changed in place: operator, line and versions."""

import gc
import re
from typing import Any

import facula as fa
import pytest
from facula.autograd.graph import increment_version

HERE = __file__.rsplit("/", 1)[-1]


def saved() -> tuple[Any, Any]:
    """A tensor that the node of the second needs."""
    w = fa.ones(3, requires_grad=True)
    x = fa.full((3,), 2.0)
    return x, (x * w).sum()


def message(root: Any) -> str:
    with pytest.raises(RuntimeError, match="modified by an inplace operation") as error:
        root.backward()
    return str(error.value)


def line_of(text: str) -> int:
    """Where this file has the marker."""
    with open(__file__) as f:
        return next(i for i, line in enumerate(f, 1) if line.rstrip().endswith("# " + text))


def out_form(x: Any) -> None:
    fa.add(fa.ones(3), 1, out=x)  # out


def optimizer(x: Any) -> None:
    x.grad = fa.ones(3)
    fa.optim.SGD([x], 0.1).step()  # optimizer


def adam(x: Any) -> None:
    x.grad = fa.ones(3)
    fa.optim.Adam([x], 0.1).step()  # adam


def item(x: Any) -> None:
    x[0] = 5.0  # item


def composed(x: Any) -> None:
    x.detach().addcmul_(fa.ones(3), fa.ones(3))  # composed


def filled(x: Any) -> None:
    x.detach().fill_(3)  # filled


def drawn(x: Any) -> None:
    fa.nn.init.normal_(x)  # drawn


def unrecorded(x: Any) -> None:
    with fa.no_grad():
        x.clamp_(0, 1)  # unrecorded


def operator(x: Any) -> None:
    x += 1  # operator


def long_way(x: Any) -> None:
    x.view(3, 1).t().copy_(fa.ones(1, 3))  # long_way


def counted(x: Any) -> None:
    increment_version(x)  # counted


CHANGES = {
    out_form: "add",
    optimizer: "sgd_step",
    adam: "adam_step",
    item: None,
    composed: "addcmul_",
    filled: "fill_",
    drawn: "normal_",
    unrecorded: "clamp_",
    operator: "add_",
    long_way: "copy_",
    counted: "increment_version",
}


@pytest.mark.parametrize("change", CHANGES, ids=lambda f: f.__name__)
@pytest.mark.parametrize("anomaly", [False, True])
def test_the_operator_and_the_line_are_named(change: Any, anomaly: bool) -> None:
    name = CHANGES[change]
    with fa.autograd.set_detect_anomaly(anomaly):
        x, root = saved()
        change(x)
        text = message(root)
    marker = "out" if change is out_form else change.__name__
    assert f"{HERE}:{line_of(marker)} changed it" in text, text
    assert name is None or f"`{name}` at" in text, text
    found = re.search(r"saved for backward at version (\d+) and is now at version (\d+)", text)
    assert found is not None and int(found[1]) < int(found[2]) == x._version


def test_the_first_change_is_named_and_none_before_the_save() -> None:
    w = fa.ones(3, requires_grad=True)
    x = fa.ones(3)
    x.mul_(3)
    root = (x * w).sum()
    x.exp_()  # first
    x.sin_()
    text = message(root)
    assert "`exp_` at" in text and f"{HERE}:{line_of('first')} " in text and "version 3" in text


def test_a_change_between_two_saves_is_named() -> None:
    w = fa.ones(3, requires_grad=True)
    x = fa.full((3,), 2.0)
    y = x * w
    x.add_(1)  # between
    z = x * w
    text = message((y + z).sum())
    assert "`add_`" in text and f"{HERE}:{line_of('between')}" in text
    y, z = x * w, x * w
    x.mul_(2)  # after both
    text = message((y + z).sum())
    assert "`mul_`" in text and f"{HERE}:{line_of('after both')}" in text


def test_large_tensors_are_told_too() -> None:
    w = fa.ones(1 << 16, requires_grad=True)
    x = fa.ones(1 << 16)
    root = (x * w).sum()
    x.mul_(2)  # large
    assert "`mul_` at" in (text := message(root)) and f":{line_of('large')} " in text


def test_lines_of_several_tensors_of_one_call() -> None:
    w = fa.ones(3, requires_grad=True)
    xs = [fa.ones(3) for _ in range(3)]
    roots = [(x * w).sum() for x in xs]
    for x in xs:
        x.grad = fa.ones(3)
    fa.optim.SGD(xs, 0.1).step()  # several
    for root in roots:
        assert f"{HERE}:{line_of('several')} " in message(root)


def test_memory_used_again_names_no_line_of_before() -> None:
    with fa.autograd.set_detect_anomaly(True):
        for _ in range(100):
            x = fa.ones(3)
            x.mul_(2)
            del x
            gc.collect(0)
            x, root = saved()
            x.data.add_(1)  # counts for itself
            root.backward()
            x, root = saved()
            increment_version(x)
            assert "`mul_`" not in message(root)


def test_code_made_on_the_way_is_named() -> None:
    for i in range(5):
        x, root = saved()
        exec(compile("\n" * i + "x.neg_()", f"<made {i}>", "exec"), {"x": x})
        assert f"`neg_` at <made {i}>:{i + 1} changed it" in message(root)


# ---- tensors made in inference mode ----

WRITES = {
    "add_": lambda x: x.add_(1),
    "out": lambda x: fa.add(fa.ones(3), 1, out=x),
    "out of a reduction": lambda x: fa.sum(fa.ones(3, 3), 0, out=x),
    "out of a composition": lambda x: fa.cat([fa.ones(1), fa.ones(2)], out=x),
    "setitem": lambda x: x.__setitem__(0, 1.0),
    "fill_": lambda x: x.fill_(1),
    "zero_": lambda x: x.zero_(),
    "copy_": lambda x: x.copy_(fa.ones(3)),
    "normal_": lambda x: x.normal_(),
    "init": lambda x: fa.nn.init.uniform_(x),
    "resize_": lambda x: x.resize_(2, 2),
    "unsqueeze_": lambda x: x.unsqueeze_(0),
    "view": lambda x: x.view(3).mul_(2),
    "index_put_": lambda x: x.index_put_((fa.tensor([0]),), fa.tensor(1.0)),
    "masked_fill_": lambda x: x.masked_fill_(fa.tensor([True, False, True]), 0.0),
    "clamp_": lambda x: x.clamp_(0, 1),
}


@pytest.mark.parametrize("name", WRITES)
@pytest.mark.parametrize("grad", [True, False])
def test_writes_to_tensors_of_inference_mode(name: str, grad: bool) -> None:
    with fa.inference_mode():
        x = fa.ones(3)
        WRITES[name](x)  # in it all may be
        x = fa.ones(3)
    with fa.set_grad_enabled(grad), pytest.raises(RuntimeError, match="inference mode"):
        WRITES[name](x)
    assert x.tolist() == [1, 1, 1]
    with pytest.raises(RuntimeError, match=r"_version.*not counted.*clone\(\)"):
        _ = x._version
    y = x.clone()
    WRITES[name](y)
    assert not y.is_inference() and y._version >= 0


def test_tensors_from_outside_may_be_changed_in_inference_mode() -> None:
    x = fa.ones(3)
    with fa.inference_mode():
        view = x.view(3)
        view.add_(1)
        assert not view.is_inference() and x._version == 1
    view.add_(1)
    assert x.tolist() == [3, 3, 3] and x._version == 2
