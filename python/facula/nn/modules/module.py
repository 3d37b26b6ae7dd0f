"""`Module`: a callable that owns parameters, buffers and other modules."""

from __future__ import annotations

import contextlib
import itertools
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import facula
from facula import _C
from facula._capture import capture_for
from facula.nn.modules import _global_hooks as everywhere
from facula.nn.modules._compiled import compiled_class
from facula.nn.modules._hooks import BackwardHooks, HookMixin
from facula.nn.modules._state import StateDictMixin
from facula.nn.parameter import Buffer, Parameter

__all__ = ["Module"]

register_module_backward_hook = everywhere.register_module_backward_hook
register_module_buffer_registration_hook = everywhere.register_module_buffer_registration_hook
register_module_forward_hook = everywhere.register_module_forward_hook
register_module_forward_pre_hook = everywhere.register_module_forward_pre_hook
register_module_full_backward_hook = everywhere.register_module_full_backward_hook
register_module_full_backward_pre_hook = everywhere.register_module_full_backward_pre_hook
register_module_module_registration_hook = everywhere.register_module_module_registration_hook
register_module_parameter_registration_hook = everywhere.register_module_parameter_registration_hook

T = TypeVar("T", bound="Module")


class _CallSignature:
    """What `inspect.signature` tells of a module, whose call is compiled; not of a class."""

    def __get__(self, module: Any, owner: type) -> Any:
        if module is None:
            raise AttributeError("__signature__")
        from inspect import Parameter as P
        from inspect import Signature

        return Signature([P("args", P.VAR_POSITIONAL), P("kwargs", P.VAR_KEYWORD)])


class Module(HookMixin, StateDictMixin, _C._ModuleBase):
    """Base class of all layers and networks.

    A subclass calls `super().__init__()`, assigns parameters, buffers and submodules to
    attributes, and defines `forward`. Calling the module runs `forward` and the hooks.

    Errors raised inside `forward` carry a note with the dotted path of the module that raised,
    and its parameters' dtypes, shapes and devices (Python 3.11 or later).
    """

    training: bool
    __signature__ = _CallSignature()

    #: Whether `__init__` calls that of the next class in line, with its arguments.
    call_super_init: bool = False
    #: Of no effect: what used to be printed where the source of a class had changed.
    dump_patches: bool = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if (args or kwargs) and not self.call_super_init:
            given = [repr(a) for a in args] + [f"{k}={v!r}" for k, v in kwargs.items()]
            raise TypeError(f"{type(self).__name__}.__init__() got unexpected {', '.join(given)}")
        put = super().__setattr__
        put("training", True)
        put("_parameters", {})
        put("_buffers", {})
        put("_modules", {})
        put("_non_persistent_buffers_set", set())
        for name in (
            "_forward_pre_hooks",
            "_forward_pre_hooks_with_kwargs",
            "_forward_hooks",
            "_forward_hooks_with_kwargs",
            "_forward_hooks_always_called",
            "_backward_hooks",
            "_backward_pre_hooks",
            "_state_dict_hooks",
            "_state_dict_pre_hooks",
            "_load_state_dict_pre_hooks",
            "_load_state_dict_post_hooks",
        ):
            put(name, OrderedDict())
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the result; every subclass overrides this."""
        raise NotImplementedError(f"{type(self).__name__} has no forward()")

    # ---- calling

    # `__call__` and `__getattr__` are those of the compiled base: forward when there are no hooks,
    # else `_call_with_hooks`; and what `_parameters`, `_buffers` and `_modules` hold.

    def _note_failure(self, error: BaseException) -> None:
        _note_path(error, self)

    def _call_with_hooks(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        called: set[int] = set()
        output: Any = None
        try:
            for hook in list(everywhere.forward_pre.values()):
                changed = hook(self, args)
                if changed is not None:
                    args = changed if isinstance(changed, tuple) else (changed,)
            for key, hook in list(self._forward_pre_hooks.items()):
                if key in self._forward_pre_hooks_with_kwargs:
                    changed = hook(self, args, kwargs)
                    if changed is not None:
                        if not (isinstance(changed, tuple) and len(changed) == 2):
                            raise RuntimeError(
                                "a forward pre-hook with kwargs must return None or a tuple of "
                                f"(args, kwargs), not {type(changed).__name__}"
                            )
                        args, kwargs = changed
                else:
                    changed = hook(self, args)
                    if changed is not None:
                        args = changed if isinstance(changed, tuple) else (changed,)
            backward = None
            if self._backward_hooks or self._backward_pre_hooks or everywhere.any_backward():
                backward = BackwardHooks(self)
                args = backward.wrap_inputs(args)
            output = self.forward(*args, **kwargs)
            for key, hook in [*everywhere.forward.items(), *self._forward_hooks.items()]:
                called.add(key)
                changed = self._run_forward_hook(key, hook, args, kwargs, output)
                if changed is not None:
                    output = changed
            return backward.wrap_outputs(output) if backward else output
        except Exception:
            for key, hook in [*everywhere.forward.items(), *self._forward_hooks.items()]:
                always = key in self._forward_hooks_always_called or key in everywhere.always
                if always and key not in called:
                    # The first error is the one to report.
                    with contextlib.suppress(Exception):
                        self._run_forward_hook(key, hook, args, kwargs, None)
            raise

    def _run_forward_hook(
        self, key: int, hook: Callable[..., Any], args: Any, kwargs: Any, output: Any
    ) -> Any:
        if key in self._forward_hooks_with_kwargs or key in everywhere.with_kwargs:
            return hook(self, args, kwargs, output)
        return hook(self, args, output)

    # ---- attributes

    def __setattr__(self, name: str, value: Any) -> None:
        kept = self.__dict__
        if isinstance(value, Parameter):
            self._forget(name, "_parameters")
            self.register_parameter(name, value)
            return
        parameters = kept.get("_parameters")
        if parameters is not None and name in parameters:
            if value is not None:
                raise TypeError(
                    f"cannot assign {type(value).__name__} as parameter {name!r} "
                    "(nn.Parameter or None expected)"
                )
            parameters[name] = None
            return
        if isinstance(value, Module):
            if "_modules" not in kept:
                raise AttributeError("cannot assign module before Module.__init__() call")
            self._forget(name, "_modules")
            self._modules[name] = everywhere.registered("module", self, name, value)
            return
        modules = kept.get("_modules")
        if modules is not None and name in modules:
            if value is not None:
                raise TypeError(
                    f"cannot assign {type(value).__name__} as child module {name!r} "
                    "(nn.Module or None expected)"
                )
            modules[name] = None
            return
        if isinstance(value, Buffer):
            self._forget(name, "_buffers")
            self.register_buffer(name, value, value.persistent)
            return
        buffers = kept.get("_buffers")
        if buffers is not None and name in buffers:
            if value is not None and not isinstance(value, facula.Tensor):
                raise TypeError(
                    f"cannot assign {type(value).__name__} as buffer {name!r} "
                    "(Tensor or None expected)"
                )
            buffers[name] = value
            return
        super().__setattr__(name, value)

    def _forget(self, name: str, keep: str) -> None:
        """Drop `name` wherever it lives, except in the dictionary `keep` (its order stays)."""
        self.__dict__.pop(name, None)
        for kind in ("_parameters", "_buffers", "_modules"):
            if kind != keep:
                self.__dict__.get(kind, {}).pop(name, None)
        self.__dict__.get("_non_persistent_buffers_set", set()).discard(name)

    def __delattr__(self, name: str) -> None:
        for kind in ("_parameters", "_buffers", "_modules"):
            if name in self.__dict__.get(kind, {}):
                del self.__dict__[kind][name]
                self._non_persistent_buffers_set.discard(name)
                return
        super().__delattr__(name)

    def __dir__(self) -> list[str]:
        names = set(dir(type(self))) | set(self.__dict__)
        names.update(self._parameters, self._buffers, self._modules)
        return sorted(n for n in names if not n[:1].isdigit())

    def _check_name(self, what: str, name: Any, own: dict[str, Any]) -> None:
        if "_parameters" not in self.__dict__:
            raise AttributeError(f"cannot assign {what} before Module.__init__() call")
        if not isinstance(name, str):
            raise TypeError(f"{what} name is {type(name).__name__}, expected str")
        if "." in name:
            raise KeyError(f'{what} name {name!r} must not contain "."')
        if name == "":
            raise KeyError(f"{what} name must not be empty")
        if hasattr(self, name) and name not in own:
            raise KeyError(f"attribute {name!r} already exists")

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter under `name`; None reserves the name and stays out of state_dict."""
        self._check_name("parameter", name, self.__dict__.get("_parameters", {}))
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(
                f"cannot assign {type(param).__name__} as parameter {name!r} "
                "(nn.Parameter or None expected)"
            )
        if param is not None and param.grad_fn is not None:
            raise ValueError(f"parameter {name!r} must be a leaf, but it has a grad_fn")
        self._parameters[name] = everywhere.registered("parameter", self, name, param)

    def register_buffer(self, name: str, tensor: Any, persistent: bool = True) -> None:
        """Add a tensor that moves with the module but is not trained.

        Args:
            name: attribute name, without dots.
            tensor: Tensor or None.
            persistent: whether `state_dict` includes it.
        """
        self._check_name("buffer", name, self.__dict__.get("_buffers", {}))
        if tensor is not None and not isinstance(tensor, facula.Tensor):
            raise TypeError(
                f"cannot assign {type(tensor).__name__} as buffer {name!r} "
                "(Tensor or None expected)"
            )
        self._buffers[name] = everywhere.registered("buffer", self, name, tensor)
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def add_module(self, name: str, module: Module | None) -> None:
        """Add a child module under `name`."""
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"{name} is {type(module).__name__}, expected a Module")
        self._check_name("module", name, self.__dict__.get("_modules", {}))
        self._modules[name] = everywhere.registered("module", self, name, module)

    register_module = add_module

    # ---- finding

    def get_submodule(self, target: str) -> Module:
        """Return the module at the dotted path `target`; "" is this module itself."""
        module: Any = self
        for name in target.split(".") if target else []:
            if not isinstance(getattr(module, name, None), Module):
                raise AttributeError(
                    f"{type(module).__name__} has no submodule {name!r} (looking for {target!r})"
                )
            module = getattr(module, name)
        return module

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Put `module` at the dotted path `target`; with strict something must be there."""
        if not target:
            raise ValueError("target is empty: a module cannot replace itself")
        if not isinstance(module, Module):
            raise ValueError(f"module is {type(module).__name__}, expected a Module")
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if strict and not hasattr(parent, name):
            raise AttributeError(f"{type(parent).__name__} has no attribute {name!r}")
        if not isinstance(getattr(parent, name, module), Module):
            raise AttributeError(f"{target!r} is not a Module")
        setattr(parent, name, module)

    def get_parameter(self, target: str) -> Parameter:
        """Return the parameter at the dotted path `target`."""
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if module._parameters.get(name) is None:
            raise AttributeError(f"{type(module).__name__} has no parameter {name!r}")
        return module._parameters[name]

    def get_buffer(self, target: str) -> Any:
        """Return the buffer at the dotted path `target`."""
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if module._buffers.get(name) is None:
            raise AttributeError(f"{type(module).__name__} has no buffer {name!r}")
        return module._buffers[name]

    def named_modules(
        self, memo: set[Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """Yield (dotted name, module) for this module and all below it."""
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                path = f"{prefix}.{name}" if prefix else name
                yield from module.named_modules(memo, path, remove_duplicate)

    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        """Yield this module and all below it, each once unless `remove_duplicate` is False."""
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Yield (name, module) for the direct children, each once."""
        seen: set[Module] = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def children(self) -> Iterator[Module]:
        """Yield the direct children."""
        for _, module in self.named_children():
            yield module

    def _named_members(
        self, kind: str, prefix: str, recurse: bool, remove_duplicate: bool
    ) -> Iterator[tuple[str, Any]]:
        seen: set[int] = set()
        modules: Any = [(prefix, self)]
        if recurse:
            modules = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate)
        for path, module in modules:
            for name, tensor in getattr(module, kind).items():
                if tensor is None or id(tensor) in seen:
                    continue
                if remove_duplicate:
                    seen.add(id(tensor))
                yield (f"{path}.{name}" if path else name), tensor

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Yield (dotted name, parameter); a shared parameter once, under its first name."""
        return self._named_members("_parameters", prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Yield the parameters, each once."""
        for _, parameter in self.named_parameters(recurse=recurse):
            yield parameter

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Any]]:
        """Yield (dotted name, buffer)."""
        return self._named_members("_buffers", prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Any]:
        """Yield the buffers, each once."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    # ---- changing everything below

    def apply(self: T, fn: Callable[[Module], Any]) -> T:
        """Call `fn` on every module below, children first, then on this one."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def compile(self, *, dynamic: bool | None = None, wait: bool = False) -> None:
        """Capture the calls of this module from now on, as `facula.compile` does.

        A second call changes the options; copies of the module and what is pickled are plain.
        """
        capture = capture_for(dynamic, wait)
        if capture is not None:
            self.__class__ = compiled_class(self, capture)

    def train(self: T, mode: bool = True) -> T:
        """Set `training` here and below: dropout and batch norm look at it."""
        if not isinstance(mode, bool):
            raise ValueError(f"mode is {mode!r}, expected a bool")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self: T) -> T:
        """Same as `train(False)`."""
        return self.train(False)

    def requires_grad_(self: T, requires_grad: bool = True) -> T:
        """Freeze or unfreeze all parameters."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradients of all parameters, or fill them with zero."""
        if set_to_none:
            _C._drop_grads(list(self.parameters()))
            return
        for parameter in self.parameters():
            if parameter.grad is not None:
                parameter.grad = parameter.grad.detach().zero_()

    def _apply(self: T, fn: Callable[[Any], Any], recurse: bool = True) -> T:
        if recurse:
            for module in self.children():
                module._apply(fn)
        for parameter in self._parameters.values():
            if parameter is None:
                continue
            # Set through `.data`: the parameter stays the same object, so that an optimizer which
            # holds it, and other modules which share it, follow.
            grad = parameter.grad
            with facula.no_grad():
                parameter.data = fn(parameter.data)
                if grad is not None:
                    parameter.grad = fn(grad.detach()).requires_grad_(grad.requires_grad)
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    def to(self: T, *args: Any, **kwargs: Any) -> T:
        """Move to a device and/or convert floating and complex tensors to a dtype, in place.

        Called as `to(device=None, dtype=None, non_blocking=False)`, `to(dtype)`, or `to(tensor)`.
        Integral parameters and buffers keep their dtype.
        """
        device, dtype, non_blocking, memory_format = _parse_to(args, kwargs)

        def convert(tensor: Any) -> Any:
            own = dtype if tensor.is_floating_point() or tensor.is_complex() else None
            if memory_format is not None and tensor.dim() == 4:
                return tensor.to(
                    device=device,
                    dtype=own,
                    non_blocking=non_blocking,
                    memory_format=memory_format,
                )
            return tensor.to(device=device, dtype=own, non_blocking=non_blocking)

        return self._apply(convert)

    def to_empty(self: T, *, device: Any, recurse: bool = True) -> T:
        """Move to `device` without copying values."""
        return self._apply(lambda t: facula.empty_like(t, device=device), recurse=recurse)

    def share_memory(self: T) -> T:
        """Move parameters, buffers and gradients to memory that other processes can map."""
        for tensor in itertools.chain(self.parameters(), self.buffers()):
            tensor.share_memory_()
            if tensor.grad is not None:
                tensor.grad.share_memory_()
        return self

    def cpu(self: T) -> T:
        """Move to the CPU."""
        return self._apply(lambda t: t.cpu())

    def cuda(self: T, device: Any = None) -> T:
        """Move to a CUDA device, the current one by default."""
        return self.to("cuda" if device is None else facula.device("cuda", device))

    def _floating(self: T, dtype: Any) -> T:
        return self._apply(lambda t: t.to(dtype) if t.is_floating_point() else t)

    def float(self: T) -> T:
        """Convert floating parameters and buffers to float32."""
        return self._floating(facula.float32)

    def double(self: T) -> T:
        """Convert floating parameters and buffers to float64."""
        return self._floating(facula.float64)

    def half(self: T) -> T:
        """Convert floating parameters and buffers to float16."""
        return self._floating(facula.float16)

    def bfloat16(self: T) -> T:
        """Convert floating parameters and buffers to bfloat16."""
        return self._floating(facula.bfloat16)

    def type(self: T, dst_type: Any) -> T:
        """Convert all parameters and buffers to a dtype."""
        return self._apply(lambda t: t.to(dst_type))

    # ---- copying and printing

    def __setstate__(self, state: dict[str, Any]) -> None:
        if "_forward_hooks_always_called" not in state:  # of a torch that had fewer hooks
            state = {**Module().__dict__, **state}
        self.__dict__.update(state)

    def extra_repr(self) -> str:
        """What stands between the parentheses of the module's own line; override it."""
        return ""

    def _get_name(self) -> str:
        return type(self).__name__

    def __repr__(self) -> str:
        extra = self.extra_repr()
        extra_lines = extra.split("\n") if extra else []
        child_lines = []
        for key, module in self._modules.items():
            child_lines.append(f"({key}): " + _indent(repr(module)))
        if not child_lines and len(extra_lines) <= 1:
            return f"{self._get_name()}({extra})"
        lines = "\n  ".join(extra_lines + child_lines)
        return f"{self._get_name()}(\n  {lines}\n)"


everywhere.offer(Module)


def _indent(text: str, spaces: int = 2) -> str:
    first, *rest = text.split("\n")
    return "\n".join([first] + [" " * spaces + line for line in rest])


def _parse_to(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any, bool, Any]:
    kwargs = dict(kwargs)
    device, dtype = kwargs.pop("device", None), kwargs.pop("dtype", None)
    non_blocking = kwargs.pop("non_blocking", False)
    memory_format = kwargs.pop("memory_format", None)
    tensor = kwargs.pop("tensor", None)
    kwargs.pop("copy", None)
    if kwargs:
        raise TypeError(f"to() got an unexpected keyword argument {next(iter(kwargs))!r}")
    for arg in args:
        if isinstance(arg, bool):
            non_blocking = arg
        elif isinstance(arg, facula.Tensor):
            tensor = arg
        elif isinstance(arg, facula.dtype):
            dtype = arg
        elif isinstance(arg, (str, int, facula.device)):
            device = arg
        elif arg is not None:
            raise TypeError(
                f"to(): got {type(arg).__name__}, expected a device, a dtype or a Tensor"
            )
    if tensor is not None:
        device, dtype = tensor.device, tensor.dtype
    if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
        raise TypeError(f"to(): dtype is {dtype}, expected a floating point or complex dtype")
    return device, dtype, non_blocking, memory_format


def _note_path(error: BaseException, module: Module) -> None:
    """Keep one note on `error` that names the module it came from, seen from `module`."""
    if not hasattr(error, "add_note"):  # before Python 3.11
        with contextlib.suppress(Exception):
            error._facula_module = None  # type: ignore[attr-defined]
        return
    with contextlib.suppress(Exception):
        where: tuple[Module, str, str, str] | None = getattr(error, "_facula_module", None)
        if where is None:
            facts = ", ".join(
                f"{name} is {tuple(t.shape)} {t.dtype} on {t.device}"
                for name, t in module._named_members("_parameters", "", False, True)
            )
            own = f"{module._get_name()}({module.extra_repr()})" if not module._modules else ""
            about = f"{own or module._get_name()}{'; its ' + facts if facts else ''}"
            path, old = "", ""
        else:
            inner, path, about, old = where
            for name, candidate in module.named_modules():
                if candidate is inner and name:
                    path = f"{name}.{path}" if path else name
                    break
        note = f"raised in module {path or '(the outermost)'} of {module._get_name()}: {about}"
        notes = getattr(error, "__notes__", None)
        if old and notes and old in notes:
            notes[notes.index(old)] = note
        else:
            error.add_note(note)
        error._facula_module = (module, path, about, note)  # type: ignore[attr-defined]
