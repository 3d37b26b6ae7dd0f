"""A tensor library with tape-based autograd, used as one uses PyTorch."""

import os as _os
import sys as _sys

from facula import _C
from facula._exports import ATTRIBUTES as _ATTRIBUTES
from facula._exports import METHODS as _METHODS
from facula._exports import METHODS_ALONE as _METHODS_ALONE
from facula._exports import REFUSED as _REFUSED
from facula._exports import SUBMODULES as _SUBMODULES
from facula._moving import add_owner as _add_owner

_C._check_interpreter()
# Operators, dtypes and types: whatever the compiled module has.
globals().update({_name: _value for _name, _value in vars(_C).items() if _name[0] != "_"})

_sys.modules["facula.return_types"] = _C.return_types
# Namespaces that consist of operators only (linalg, special, ...) need no file of their own.
for _path in _C._namespaces:
    if _path[0] == "_" or "." in _path:
        continue
    _file = _os.path.join(__path__[0], _path)
    if not _os.path.exists(_file) and not _os.path.exists(_file + ".py"):
        _module = getattr(_C, "_" + _path)
        _sys.modules["facula." + _path] = globals()[_path] = _module

newaxis = None
e = 2.718281828459045
pi = 3.141592653589793
inf = 1e999
nan = inf - inf

_SOURCES = {_name: _path for _path, _names in _ATTRIBUTES.items() for _name in _names.split()}


def _method(name):
    """A method of tensors that is a function of a module loaded when first used."""

    def method(self, *args, **kwargs):
        function = globals().get(name) or __getattr__(name)
        return function(self, *args, **kwargs)

    method.__name__ = name
    method.__doc__ = f"See facula.{name}."
    return method


for _name in _METHODS:
    setattr(_C.Tensor, _name, _method(_name))


def _method_of(path, name):
    """A method of tensors, of a module loaded when first used."""

    def method(self, *args, **kwargs):
        return getattr(_import(path), name)(self, *args, **kwargs)

    method.__name__ = name
    method.__qualname__ = "Tensor." + name
    if path in _REFUSED:
        method._is_refused = True
    return method


for _path, _names in _METHODS_ALONE.items():
    for _name in _names.split():
        setattr(_C.Tensor, _name, _method_of(_path, _name))


# What `pickle` asks.
_C.Tensor.__reduce_ex__ = _method_of("facula.serialization._pickling", "__reduce_ex__")


def _array_ufunc(self, ufunc, method, *inputs, **kwargs):
    """What NumPy calls for its element-wise functions and for the signs of its arrays."""
    return _import("facula._ufuncs").call(ufunc, method, inputs, **kwargs)


_C.Tensor.__array_ufunc__ = _array_ufunc


def _to_device(self, device, /, *, stream=None):
    """See facula._methods.to_device; packages ask for its parameters."""
    return _import("facula._methods").to_device(self, device, stream=stream)


_C.Tensor.to_device = _to_device
_to_device.__name__, _to_device.__qualname__ = "to_device", "Tensor.to_device"


def _torch_function(cls, func, types, args=(), kwargs=None):
    """What a subclass calls as `super().__torch_function__`; see facula.overrides."""
    return _import("facula.overrides")._default(cls, func, types, args, kwargs)


_C.Tensor.__torch_function__ = classmethod(_torch_function)
_add_owner(_C.Tensor)


def __getattr__(name):
    if name in _SOURCES:
        value = getattr(_import(_SOURCES[name]), name)
    elif name in _SUBMODULES:
        value = _import("facula." + name)
    elif name[:1] not in ("", "_") and (
        device_module := _import("facula.backends")._module_or_none(name)
    ):
        return device_module
    else:
        # With name and obj, Python proposes what was meant.
        message = f"module 'facula' has no attribute '{name}'"
        raise AttributeError(message, name=name, obj=_sys.modules[__name__])
    globals()[name] = value
    return value


def _import(name):
    __import__(name)
    return _sys.modules[name]


def __dir__():
    return sorted({*globals(), *_SOURCES, *_SUBMODULES})


__array_api_version__ = "2024.12"


def __array_namespace_info__():
    """Capabilities, dtypes and devices, as the Array API standard has it."""
    return _import("facula._array_api").Info()


def typename(obj):
    """Name of a tensor's type, or of any object's."""
    if is_tensor(obj):  # noqa: F821
        return obj.type()
    return f"{type(obj).__module__}.{type(obj).__qualname__}"


__all__ = [_n for _n in dir(_C) if _n[0] != "_"]
__all__ += [*_SOURCES, "e", "inf", "nan", "newaxis", "pi", "typename"]
