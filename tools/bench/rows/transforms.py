"""Function transforms: per-sample gradients, Jacobians, what a level costs a call."""

from __future__ import annotations

from tools.bench.row import Family

rows = Family("transforms")


@rows.add("vmap(grad) of an MLP, {n} samples", lambda n: 0.4 if n < 100 else 0.8, n=[16, 256])
def per_sample(lib, inputs, n):
    """Two layers of 64 on samples of 32 elements."""
    params = {
        "a": inputs.floats(64, 32),
        "b": inputs.floats(64),
        "c": inputs.floats(1, 64),
    }
    x, y = inputs.floats(n, 32), inputs.floats(n, 1)

    def loss(params, x, y):
        hidden = (params["a"] @ x + params["b"]).tanh()
        return ((params["c"] @ hidden - y) ** 2).sum()

    each = lib.func.vmap(lib.func.grad(loss), in_dims=(None, 0, 0))
    return lambda: each(params, x, y)["a"]


@rows.add("vmap(grad) of a convolution, 32 images", 0.8)
def per_image(lib, inputs):
    """16 filters of 3 x 3 on 3 x 32 x 32."""
    weight, images = inputs.floats(16, 3, 3, 3), inputs.floats(32, 3, 32, 32)

    def loss(weight, image):
        return (lib.nn.functional.conv2d(image[None], weight) ** 2).sum()

    each = lib.func.vmap(lib.func.grad(loss), in_dims=(None, 0))
    return lambda: each(weight, images)


@rows.add("{how} of 256 x 256", 0.8, how=["jacrev", "jacfwd"])
def jacobian(lib, inputs, how):
    """tanh of a product with a matrix."""
    weight, x = inputs.floats(256, 256), inputs.floats(256)
    whole = getattr(lib.func, how)(lambda x: (weight @ x).tanh())
    return lambda: whole(x)


@rows.add("Hessian of 64 x 64", 0.4)
def hessian(lib, inputs):
    """A quadratic form of sines."""
    weight, x = inputs.floats(64, 64), inputs.floats(64)
    whole = lib.func.hessian(lambda x: x.sin() @ weight @ x.sin())
    return lambda: whole(x)


@rows.add("vmap of a sum of 2 x 8 elements", 0.4)
def level(lib, inputs):
    x, y = inputs.floats(2, 8), inputs.floats(2, 8)
    mapped = lib.func.vmap(lambda a, b: a + b)
    return lambda: mapped(x, y)


@rows.add("grad of x * x", 0.4)
def gradient(lib, inputs):
    x = inputs.floats(8)
    slope = lib.func.grad(lambda x: (x * x).sum())
    return lambda: slope(x)
