"""`Optimizer`: parameter groups, state, and the frame of a step."""

from __future__ import annotations

import copy
import functools
import math
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Mapping
from typing import Any

import facula
from facula.utils.hooks import RemovableHandle

__all__ = [
    "Optimizer",
    "register_optimizer_step_post_hook",
    "register_optimizer_step_pre_hook",
]

_every_pre_hook: OrderedDict[int, Any] = OrderedDict()
_every_post_hook: OrderedDict[int, Any] = OrderedDict()


def register_optimizer_step_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(optimizer, args, kwargs)` before each step of every optimizer.

    It may return new (args, kwargs) of the step.
    """
    return _register(_every_pre_hook, hook)


def register_optimizer_step_post_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(optimizer, args, kwargs)` after each step of every optimizer."""
    return _register(_every_post_hook, hook)


def _with_hooks(step: Callable[..., Any]) -> Callable[..., Any]:
    """A class's `step` with the hooks around it, and a range in profiles."""

    @functools.wraps(step)
    def hooked(self: Any, *args: Any, **kwargs: Any) -> Any:
        # It is the step of a base class, or of a subclass that made no optimizer of itself.
        if self._is_stepping or "_step_pre_hooks" not in self.__dict__:
            return step(self, *args, **kwargs)
        seen = facula._C._enter_range("Optimizer.step#" + type(self).__name__ + ".step")
        self._is_stepping = True
        try:
            for hook in [*_every_pre_hook.values(), *self._step_pre_hooks.values()]:
                changed = hook(self, args, kwargs)
                if changed is not None:
                    if not (isinstance(changed, tuple) and len(changed) == 2):
                        raise RuntimeError(
                            "a pre-hook of step() must return None or a tuple of (new_args, "
                            f"new_kwargs), but got {changed!r}"
                        )
                    args, kwargs = changed
            result = step(self, *args, **kwargs)
            self._has_stepped = True
            for hook in [*self._step_post_hooks.values(), *_every_post_hook.values()]:
                hook(self, args, kwargs)
            return result
        finally:
            self._is_stepping = False
            if seen:
                facula._C._leave_range()

    return hooked


class _Required:
    def __repr__(self) -> str:
        return "<required parameter>"


required = _Required()


class Optimizer:
    """Base class of the optimizers.

    Args:
        params: tensors, (name, tensor) pairs, or dictionaries with "params" and the options of
            that group.
        defaults: options of groups that do not give them.

    A subclass defines `_init_state` (what one parameter keeps between steps) and `_update` (the
    step of all parameters of a group that are on one device); with an option `differentiable`, also
    `_formula`.
    """

    _is_stepping = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "step" in vars(cls):
            cls.step = _with_hooks(vars(cls)["step"])  # type: ignore[method-assign]

    def __init__(self, params: Any, defaults: dict[str, Any]) -> None:
        self.defaults = defaults
        self.state: defaultdict[Any, dict[str, Any]] = defaultdict(dict)
        self.param_groups: list[dict[str, Any]] = []
        self._has_stepped = False
        self._reset_hooks()
        if isinstance(params, facula.Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or "
                "dicts, but got a Tensor"
            )
        groups = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(dict(group))

    def _reset_hooks(self) -> None:
        self._step_pre_hooks: OrderedDict[int, Any] = OrderedDict()
        self._step_post_hooks: OrderedDict[int, Any] = OrderedDict()
        self._state_dict_pre_hooks: OrderedDict[int, Any] = OrderedDict()
        self._state_dict_post_hooks: OrderedDict[int, Any] = OrderedDict()
        self._load_state_dict_pre_hooks: OrderedDict[int, Any] = OrderedDict()
        self._load_state_dict_post_hooks: OrderedDict[int, Any] = OrderedDict()

    # ---- groups

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group: {"params": tensors, option: value, ...}.

        Raises:
            TypeError: an entry is not a Tensor, or a set (its order is not fixed) was given.
            ValueError: an entry is not a leaf, is in a group already, or an option is missing.
        """
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group).__name__}")
        params = param_group["params"]
        if isinstance(params, set):
            raise TypeError(
                "optimizer parameters need to be organized in ordered collections, but a set has "
                "no fixed order"
            )
        entries = [params] if isinstance(params, facula.Tensor) else list(params)
        names = []
        for i, entry in enumerate(entries):
            if isinstance(entry, tuple) and len(entry) == 2 and isinstance(entry[0], str):
                names.append(entry[0])
                entries[i] = entry[1]
        if names and len(names) != len(entries):
            raise ValueError("all parameters of a group must have a name, or none")
        for entry in entries:
            if not isinstance(entry, facula.Tensor):
                raise TypeError(
                    f"optimizer can only optimize Tensors, but one of the params is "
                    f"{type(entry).__name__}"
                )
            followed = param_group.get("differentiable", self.defaults.get("differentiable"))
            if not (followed or entry.is_leaf or entry.retains_grad):
                raise ValueError("can't optimize a non-leaf Tensor")
        param_group["params"] = entries
        if names:
            param_group["param_names"] = names
        for name, value in self.defaults.items():
            if value is required and name not in param_group:
                raise ValueError(f"parameter group didn't specify a value of required {name}")
            param_group.setdefault(name, value)
        ids = [id(p) for p in entries]
        if len(set(ids)) != len(ids):
            raise ValueError("a parameter occurs twice in one group")
        known = {id(p) for group in self.param_groups for p in group["params"]}
        if not known.isdisjoint(ids):
            raise ValueError("some parameters appear in more than one parameter group")
        self._check_group(param_group)
        has_step_only = type(self)._update is not Optimizer._update
        has_step_only = has_step_only and type(self)._formula is Optimizer._formula
        if has_step_only and param_group.get("differentiable"):
            raise NotImplementedError(
                f"{type(self).__name__}: differentiable=True is not supported; it wants a _formula "
                "beside _update"
            )
        self.param_groups.append(param_group)

    def _check_group(self, group: dict[str, Any]) -> None:
        """Raise ValueError for options out of range."""

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradients of all parameters, or fill them with zero."""
        for group in self.param_groups:
            if set_to_none:
                facula._C._drop_grads(group["params"])
                continue
            for p in group["params"]:
                if p.grad is not None:
                    p.grad = p.grad.detach().zero_()

    # ---- stepping

    @_with_hooks
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update all parameters that have a gradient.

        Args:
            closure: recomputes the loss, with gradients; called once before the update.

        Returns:
            The closure's result, or None.
        """
        loss = None
        if closure is not None:
            with facula.enable_grad():
                loss = closure()
        with facula.no_grad():
            for group in self.param_groups:
                if group.get("differentiable"):
                    self._step_differentiably(group)
                else:
                    self._step_group(group)
        return loss

    def _step_differentiably(self, group: dict[str, Any]) -> None:
        for p in group["params"]:
            if p.grad is None:
                continue
            state = self.state[p]
            if not state:
                self._init_state(p, state, group)
            with facula.enable_grad():
                grad = as_real(-p.grad if group["maximize"] else p.grad)
                # What a graph keeps of the parameter is not what is written to below.
                old, new = as_real(p.clone()), {k: _as_real(v) for k, v in state.items()}
                moved = self._formula(old, grad, new, group)
                as_real(p).copy_(moved)
                for key, value in new.items():
                    pairs = p.is_complex() and getattr(value, "shape", None) == old.shape
                    state[key] = facula.view_as_complex(value) if pairs else value

    def _step_group(self, group: dict[str, Any]) -> None:
        params, grads, states = [], [], []
        sparse = []
        known, strided = self.state, facula.strided
        for p in group["params"]:
            grad = p.grad
            if grad is None:
                continue
            state = known.get(p)
            if not state:
                state = {}
                self._init_state(p, state, group)
                if state:
                    known[p] = state
            if grad.layout is not strided:
                sparse.append((p, grad, state))
                continue
            params.append(p)
            grads.append(grad)
            states.append(state)
        for p, grad, state in sparse:
            self._update_sparse(p, grad, state, group)
        devices = {p.device for p in params}
        if not devices and sparse:
            return
        if len(devices) == 1:
            self._update(params, grads, states, group)
            return
        for device in devices:
            at = [i for i, p in enumerate(params) if p.device == device]
            self._update(*([kind[i] for i in at] for kind in (params, grads, states)), group)

    def _init_state(self, param: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        """Fill the empty `state` of `param`."""

    def _update(
        self, params: list[Any], grads: list[Any], states: list[dict[str, Any]], group: Any
    ) -> None:
        """Step these parameters in place; runs without autograd."""
        raise NotImplementedError(f"{type(self).__name__} defines neither step nor _update")

    def _update_sparse(self, param: Any, grad: Any, state: dict[str, Any], group: Any) -> None:
        """Step a parameter in place whose gradient is sparse; runs without autograd."""
        raise RuntimeError(
            f"{type(self).__name__} does not take sparse gradients; use SGD, Adagrad or SparseAdam "
            "for these parameters, or layers without sparse=True"
        )

    def _formula(self, x: Any, grad: Any, state: dict[str, Any], group: Any) -> Any:
        """The parameter x after a step, for `differentiable`: new tensors take the state's places.

        `_update` does the same in place. Complex numbers come as pairs of real ones; `grad` has the
        sign of a minimisation.
        """
        raise NotImplementedError(f"{type(self).__name__} has no differentiable step")

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` before each step; it may return new ones."""
        return _register(self._step_pre_hooks, hook)

    def register_step_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` after each step."""
        return _register(self._step_post_hooks, hook)

    # ---- saving

    def state_dict(self) -> dict[str, Any]:
        """Return {"state": {index: ...}, "param_groups": [...]}; parameters become indices."""
        for hook in self._state_dict_pre_hooks.values():
            hook(self)
        index: dict[int, int] = {}
        groups = []
        for group in self.param_groups:
            for p in group["params"]:
                index.setdefault(id(p), len(index))
            packed = {k: v for k, v in group.items() if k != "params"}
            packed["params"] = [index[id(p)] for p in group["params"]]
            groups.append(packed)
        state = {
            (index[id(k)] if isinstance(k, facula.Tensor) else k): v for k, v in self.state.items()
        }
        result: dict[str, Any] = {"state": state, "param_groups": groups}
        for hook in self._state_dict_post_hooks.values():
            changed = hook(self, result)
            if changed is not None:
                result = changed
        return result

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take over the state and the options in `state_dict` (a copy of both).

        Floating state moves to its parameter's dtype and device, except "step" counters.

        Raises:
            ValueError: another number of groups, or of parameters in a group; nothing changes.
        """
        given: dict[str, Any] = dict(state_dict)
        for hook in self._load_state_dict_pre_hooks.values():
            changed = hook(self, given)
            if changed is not None:
                given = changed
        saved = given["param_groups"]
        if len(saved) != len(self.param_groups):
            raise ValueError(
                f"loaded state dict has {len(saved)} parameter groups, "
                f"the optimizer has {len(self.param_groups)}"
            )
        for i, (new, old) in enumerate(zip(saved, self.param_groups, strict=True)):
            if len(new["params"]) != len(old["params"]):
                raise ValueError(
                    f"loaded state dict's parameter group {i} has {len(new['params'])} "
                    f"parameters, the optimizer's has {len(old['params'])}"
                )
        owner = {
            key: p
            for new, old in zip(saved, self.param_groups, strict=True)
            for key, p in zip(new["params"], old["params"], strict=True)
        }
        state: defaultdict[Any, dict[str, Any]] = defaultdict(dict)
        for key, value in given["state"].items():
            if key in owner:
                state[owner[key]] = _moved(value, owner[key])
            else:
                state[key] = copy.deepcopy(value)
        groups = []
        for new, old in zip(saved, self.param_groups, strict=True):
            group = {k: copy.deepcopy(v) for k, v in new.items() if k != "params"}
            for name, value in self.defaults.items():  # options younger than the file
                group.setdefault(name, value)
            groups.append({**group, "params": old["params"]})
        self.state, self.param_groups = state, groups
        for hook in self._load_state_dict_post_hooks.values():
            hook(self)

    def register_state_dict_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(optimizer)` before `state_dict`."""
        return _register(self._state_dict_pre_hooks, hook, prepend)

    def register_state_dict_post_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)` after `state_dict`; its result replaces it."""
        return _register(self._state_dict_post_hooks, hook, prepend)

    def register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)` before loading; its result replaces it."""
        return _register(self._load_state_dict_pre_hooks, hook, prepend)

    def register_load_state_dict_post_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(optimizer)` after loading."""
        return _register(self._load_state_dict_post_hooks, hook, prepend)

    # ---- copying and printing

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if not k.endswith("_hooks")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._reset_hooks()

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for i, group in enumerate(self.param_groups):
            lines.append(f"Parameter Group {i}")
            lines += [f"    {k}: {group[k]}" for k in sorted(group) if k != "params"]
        return "\n".join([*lines, ")"])


def _register(
    hooks: OrderedDict[int, Any], hook: Callable[..., Any], prepend: bool = False
) -> RemovableHandle:
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


def _moved(value: Any, param: Any, key: str | None = None) -> Any:
    """A copy of one parameter's state, its tensors where and as the parameter is."""
    if key == "step" and isinstance(value, (int, float)):  # older files count in numbers
        return facula.tensor(float(value), dtype=facula.float32, device="cpu")
    if isinstance(value, facula.Tensor):
        if key == "step":
            step = value.detach().clone()
            return step if step.is_floating_point() else step.to(facula.float32)
        dtype = param.dtype if param.is_floating_point() and value.is_floating_point() else None
        moved = value.detach().to(device=param.device, dtype=dtype)
        return moved.clone() if moved.data_ptr() == value.data_ptr() else moved
    if isinstance(value, dict):
        return {k: _moved(v, param, k) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_moved(v, param) for v in value)
    return copy.deepcopy(value)


def check_range(
    name: str, value: Any, low: float = 0.0, high: float = math.inf, *, closed: bool = False
) -> None:
    """Raise ValueError unless low <= value < high, or with `closed` low <= value <= high."""
    bounded = high < math.inf
    if not low <= value or (bounded and not (value < high or (closed and value == high))):
        limit = f" and {'at most' if closed else 'less than'} {high}" if bounded else ""
        raise ValueError(f"Invalid {name}: {value}; it must be at least {low}{limit}")


def check_implementation(group: dict[str, Any]) -> None:
    """Raise for options of the implementation that torch does not take together."""
    if group.get("fused"):
        if group.get("differentiable"):
            raise RuntimeError("`fused` does not support `differentiable`")
        if group.get("foreach"):
            raise RuntimeError("`fused` and `foreach` cannot be `True` together.")


def new_step() -> Any:
    """A step counter: 0-d float32 on the CPU, as torch keeps it."""
    return facula.tensor(0.0, dtype=facula.float32, device="cpu")


def zeros_like(param: Any) -> Any:
    """State of the parameter's shape, dtype, and device."""
    return facula.zeros_like(param.detach())


def as_real(tensor: Any) -> Any:
    """A view of complex numbers as pairs of real ones, for what compares; else the tensor."""
    return facula.view_as_real(tensor) if tensor.is_complex() else tensor


def _as_real(value: Any) -> Any:
    return as_real(value) if isinstance(value, facula.Tensor) else value


def counted(state: dict[str, Any]) -> float:
    """The number of this step, which the state then holds."""
    state["step"] = state["step"] + 1
    return float(state["step"])


def mixed(old: Any, new: Any, keep: Any) -> Any:
    """keep old + (1 - keep) new: a running mean."""
    return old + (new - old) * (1 - keep)


def root(x: Any) -> Any:
    """The square root, whose slope at 0 is taken for 0."""
    return facula.where(x > 0, x.sqrt(), 0.0)


def gathered(states: list[dict[str, Any]], name: str) -> list[Any]:
    """One entry of each state."""
    return [state[name] for state in states]
