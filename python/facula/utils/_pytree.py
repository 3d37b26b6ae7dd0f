"""`torch.utils._pytree`: functions over the leaves of nested lists, tuples, dictionaries.

Libraries use it though its name says private.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

PyTree = Any
Context = Any
_IsLeaf = Callable[[Any], bool] | None


@dataclass(frozen=True)
class _Node:
    flatten: Callable[[Any], tuple[list[Any], Any]]
    unflatten: Callable[[Iterable[Any], Any], Any]
    flatten_with_keys: Callable[..., Any] | None = None

    # What torch's entries call them.
    @property
    def flatten_fn(self) -> Callable[[Any], tuple[list[Any], Any]]:
        return self.flatten

    @property
    def unflatten_fn(self) -> Callable[[Iterable[Any], Any], Any]:
        return self.unflatten


SUPPORTED_NODES: dict[type, _Node] = {
    list: _Node(lambda x: (x, None), lambda xs, _: list(xs)),
    tuple: _Node(lambda x: (list(x), None), lambda xs, _: tuple(xs)),
    deque: _Node(lambda x: (list(x), x.maxlen), lambda xs, n: deque(xs, maxlen=n)),
    dict: _Node(
        lambda x: (list(x.values()), list(x)),
        lambda xs, keys: dict(zip(keys, xs, strict=True)),
    ),
    OrderedDict: _Node(
        lambda x: (list(x.values()), list(x)),
        lambda xs, keys: OrderedDict(zip(keys, xs, strict=True)),
    ),
    defaultdict: _Node(
        lambda x: (list(x.values()), [x.default_factory, list(x)]),
        lambda xs, c: defaultdict(c[0], zip(c[1], xs, strict=True)),
    ),
    namedtuple: _Node(lambda x: (list(x), type(x)), lambda xs, kind: _made(kind, xs)),  # type: ignore[dict-item]
}


def _made(kind: Any, values: Iterable[Any]) -> Any:
    """A named tuple; those of operators, such as `max`, take one sequence."""
    return kind(*values) if hasattr(kind, "_fields") else kind(tuple(values))


@dataclass
class TreeSpec:
    """A tree without its leaves: what `tree_unflatten` puts them into."""

    type: Any
    context: Any
    children_specs: list[TreeSpec]

    @property
    def num_leaves(self) -> int:
        """How many leaves it takes."""
        return 1 if self.is_leaf() else sum(c.num_leaves for c in self.children_specs)

    @property
    def num_nodes(self) -> int:
        """How many nodes it has, leaves included."""
        return 1 + sum(c.num_nodes for c in self.children_specs)

    @property
    def num_children(self) -> int:
        """How many nodes are right below."""
        return len(self.children_specs)

    def is_leaf(self) -> bool:
        """Is it a leaf alone?"""
        return self.type is None

    def flatten_up_to(self, tree: PyTree) -> list[Any]:
        """The parts of `tree` that stand where this spec has leaves."""
        if self.is_leaf():
            return [tree]
        if _kind(tree) is not self.type:
            raise ValueError(f"expected a {self.type}, but got a {type(tree)}")
        children, context = SUPPORTED_NODES[self.type].flatten(tree)
        if len(children) != len(self.children_specs) or context != self.context:
            raise ValueError(f"the tree has {context} where the spec has {self.context}")
        found: list[Any] = []
        for child, spec in zip(children, self.children_specs, strict=True):
            found += spec.flatten_up_to(child)
        return found

    def unflatten(self, leaves: Iterable[Any]) -> PyTree:
        """See `tree_unflatten`."""
        return tree_unflatten(leaves, self)


class LeafSpec(TreeSpec):
    """The spec of a leaf."""

    def __init__(self) -> None:
        super().__init__(None, None, [])


def register_pytree_node(
    cls: type,
    flatten_fn: Callable[..., Any],
    unflatten_fn: Callable[..., Any],
    *,
    flatten_with_keys_fn: Callable[..., Any] | None = None,
    **others: Any,
) -> None:
    """Let trees have nodes of `cls`: `flatten_fn(x)` gives (children, context).

    `flatten_with_keys_fn(x)` gives ([(key, child), ...], context), for paths.

    Raises:
        ValueError: it is registered already.
    """
    if cls in SUPPORTED_NODES:
        raise ValueError(f"{cls} is already registered as a node of trees")
    SUPPORTED_NODES[cls] = _Node(flatten_fn, unflatten_fn, flatten_with_keys_fn)


_register_pytree_node = register_pytree_node


def _kind(tree: PyTree) -> Any:
    """The entry of `SUPPORTED_NODES`; None for a leaf."""
    cls = type(tree)
    if cls in SUPPORTED_NODES:
        return cls
    named = hasattr(cls, "_fields") or cls.__module__ == "facula.return_types"
    return namedtuple if isinstance(tree, tuple) and named else None


def _get_node_type(tree: PyTree) -> Any:
    """The type as which the tree's first node is taken apart."""
    return type(tree) if _kind(tree) is None else _kind(tree)


def _list_flatten(d: list[Any]) -> tuple[list[Any], Any]:
    return d, None


def _list_unflatten(values: Iterable[Any], context: Any) -> list[Any]:
    return list(values)


def _dict_flatten(d: dict[Any, Any]) -> tuple[list[Any], Any]:
    return list(d.values()), list(d)


def _dict_unflatten(values: Iterable[Any], context: Any) -> dict[Any, Any]:
    return dict(zip(context, values, strict=True))


# ---- paths to the leaves


@dataclass(frozen=True)
class SequenceKey:
    """A place in a list or a tuple."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"

    def get(self, sequence: Any) -> Any:
        """What stands there."""
        return sequence[self.idx]


@dataclass(frozen=True)
class MappingKey:
    """A key of a dictionary."""

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"

    def get(self, mapping: Any) -> Any:
        """What stands there."""
        return mapping[self.key]


@dataclass(frozen=True)
class GetAttrKey:
    """A field of a named tuple or of a data class."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"

    def get(self, obj: Any) -> Any:
        """What stands there."""
        return getattr(obj, self.name)


def _list_flatten_with_keys(d: Any) -> tuple[list[tuple[Any, Any]], Any]:
    return [(SequenceKey(i), v) for i, v in enumerate(d)], None


def _dict_flatten_with_keys(d: Any) -> tuple[list[tuple[Any, Any]], Any]:
    return [(MappingKey(k), v) for k, v in d.items()], list(d)


def _keyed(tree: PyTree, kind: Any) -> list[tuple[Any, Any]]:
    node = SUPPORTED_NODES[kind]
    if node.flatten_with_keys is not None:
        return list(node.flatten_with_keys(tree)[0])
    if isinstance(tree, dict):
        return _dict_flatten_with_keys(tree)[0]
    if kind is namedtuple and hasattr(tree, "_fields"):
        return [(GetAttrKey(name), getattr(tree, name)) for name in tree._fields]
    children = node.flatten(tree)[0]
    return [(SequenceKey(i), child) for i, child in enumerate(children)]


def tree_flatten_with_path(
    tree: PyTree, is_leaf: _IsLeaf = None
) -> tuple[list[tuple[tuple[Any, ...], Any]], TreeSpec]:
    """([(path, leaf), ...], spec); a path is a tuple of keys."""

    def walk(part: PyTree, path: tuple[Any, ...]) -> Iterable[tuple[tuple[Any, ...], Any]]:
        kind = None if is_leaf is not None and is_leaf(part) else _kind(part)
        if kind is None:
            yield path, part
            return
        for key, child in _keyed(part, kind):
            yield from walk(child, (*path, key))

    return list(walk(tree, ())), tree_structure(tree, is_leaf)


def tree_leaves_with_path(
    tree: PyTree, is_leaf: _IsLeaf = None
) -> list[tuple[tuple[Any, ...], Any]]:
    """[(path, leaf), ...]."""
    return tree_flatten_with_path(tree, is_leaf)[0]


def tree_map_with_path(
    func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: _IsLeaf = None
) -> PyTree:
    """The tree of `func(path, leaf, ...)`."""
    pairs, spec = tree_flatten_with_path(tree, is_leaf)
    others = [spec.flatten_up_to(rest) for rest in rests]
    made = [func(path, *leaves) for (path, *leaves) in _joined(pairs, others)]
    return tree_unflatten(made, spec)


def _joined(pairs: Any, others: Any) -> Iterable[tuple[Any, ...]]:
    for i, (path, leaf) in enumerate(pairs):
        yield (path, leaf, *(other[i] for other in others))


def keystr(kp: tuple[Any, ...]) -> str:
    """A path as text."""
    return "".join(map(str, kp))


def key_get(obj: Any, kp: tuple[Any, ...]) -> Any:
    """What stands at a path."""
    for key in kp:
        obj = key.get(obj)
    return obj


def treespec_dumps(treespec: TreeSpec, protocol: int | None = None) -> str:
    """The spec as text, which `treespec_loads` reads; of lists, tuples and dicts of JSON's keys."""
    import json

    def packed(spec: TreeSpec) -> Any:
        if spec.is_leaf():
            return None
        if spec.type not in _NAMED.values():
            raise NotImplementedError(f"treespec_dumps(): cannot write nodes of {spec.type}")
        name = next(n for n, t in _NAMED.items() if t is spec.type)
        return [name, spec.context, [packed(child) for child in spec.children_specs]]

    return json.dumps(packed(treespec))


def treespec_loads(serialized: str) -> TreeSpec:
    """What `treespec_dumps` wrote."""
    import json

    def unpacked(record: Any) -> TreeSpec:
        if record is None:
            return LeafSpec()
        name, context, children = record
        return TreeSpec(_NAMED[name], context, [unpacked(child) for child in children])

    return unpacked(json.loads(serialized))


_NAMED = {"list": list, "tuple": tuple, "dict": dict, "OrderedDict": OrderedDict}


def tree_flatten(tree: PyTree, is_leaf: _IsLeaf = None) -> tuple[list[Any], TreeSpec]:
    """(leaves, spec); `tree_unflatten` undoes it. None is a leaf."""
    kind = None if is_leaf is not None and is_leaf(tree) else _kind(tree)
    if kind is None:
        return [tree], LeafSpec()
    children, context = SUPPORTED_NODES[kind].flatten(tree)
    leaves: list[Any] = []
    specs = []
    for child in children:
        inner, spec = tree_flatten(child, is_leaf)
        leaves += inner
        specs.append(spec)
    return leaves, TreeSpec(kind, context, specs)


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> PyTree:
    """The tree of the spec with these leaves.

    Raises:
        ValueError: there are more or fewer than it takes.
    """
    given = list(leaves)
    if len(given) != treespec.num_leaves:
        raise ValueError(
            f"tree_unflatten(): {len(given)} leaves for a tree of {treespec.num_leaves}"
        )
    left = iter(given)

    def build(spec: TreeSpec) -> PyTree:
        if spec.is_leaf():
            return next(left)
        children = [build(child) for child in spec.children_specs]
        return SUPPORTED_NODES[spec.type].unflatten(children, spec.context)

    return build(treespec)


def tree_leaves(tree: PyTree, is_leaf: _IsLeaf = None) -> list[Any]:
    """The leaves, in order."""
    return tree_flatten(tree, is_leaf)[0]


def tree_iter(tree: PyTree, is_leaf: _IsLeaf = None) -> Iterable[Any]:
    """The leaves, in order."""
    return iter(tree_leaves(tree, is_leaf))


def tree_structure(tree: PyTree, is_leaf: _IsLeaf = None) -> TreeSpec:
    """The spec."""
    return tree_flatten(tree, is_leaf)[1]


def tree_map(
    func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: _IsLeaf = None
) -> PyTree:
    """The tree of `func(leaf, ...)`, with what stands there in the other trees."""
    leaves, spec = tree_flatten(tree, is_leaf)
    others = [spec.flatten_up_to(rest) for rest in rests]
    return tree_unflatten([func(*each) for each in zip(leaves, *others, strict=True)], spec)


def tree_map_(
    func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: _IsLeaf = None
) -> PyTree:
    """Call `func` as `tree_map` does, and give `tree` back."""
    tree_map(func, tree, *rests, is_leaf=is_leaf)
    return tree


def _only(kind: Any) -> Any:
    chosen = kind if not isinstance(kind, type) and callable(kind) else None

    def decorate(func: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def apply(x: Any) -> Any:
            return func(x) if (chosen(x) if chosen else isinstance(x, kind)) else x

        return apply

    return decorate


def map_only(type_or_types_or_pred: Any, /) -> Callable[[Callable[..., Any]], Any]:
    """A decorator: values of other types stay as they are."""
    return _only(type_or_types_or_pred)  # type: ignore[no-any-return]


def tree_map_only(
    kind: Any, /, func: Callable[[Any], Any], tree: PyTree, is_leaf: _IsLeaf = None
) -> PyTree:
    """`tree_map` over leaves of a type, or of several, or for which a function is true."""
    return tree_map(_only(kind)(func), tree, is_leaf=is_leaf)


def tree_all(pred: Callable[[Any], bool], tree: PyTree, is_leaf: _IsLeaf = None) -> bool:
    """Is it true of all leaves?"""
    return all(pred(leaf) for leaf in tree_leaves(tree, is_leaf))


def tree_any(pred: Callable[[Any], bool], tree: PyTree, is_leaf: _IsLeaf = None) -> bool:
    """Is it true of any leaf?"""
    return any(pred(leaf) for leaf in tree_leaves(tree, is_leaf))
