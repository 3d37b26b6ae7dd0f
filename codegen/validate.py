"""What records must satisfy beyond their form: all that needs no code to be made."""

from __future__ import annotations

import ast
import builtins
import itertools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from . import onnx_names
from .emit import batching
from .emit.bindings import inplace_names, python_names
from .emit.stubs import forms_of, takes_self
from .scalar import vocabulary
from .schema import cpp_types, expr, signs
from .schema.errors import Errors, nearest, suggestion
from .schema.model import Derivative, Formula, Location, Operator, Schema
from .schema.samples import (
    DIFFERENTIABLE,
    check_sample,
    differentiated,
    property_tests,
    reference_functions,
)
from .schema.words import (
    DEFAULT_VARIANTS,
    DEVICES,
    DTYPE_CLASSES,
    FLOPS_FACTS,
    FLOPS_FUNCTIONS,
    PLACES,
)

# Types that C++ hands to Python.
RESULTS = ("Tensor", "Tensor[]", "bool", "int", "float", "Scalar", "int[]")
# Kinds whose kernels write into outputs that a shape rule has made.
SHAPED = ("reduction", "scan", "matmul", "structured")
_REFERENCE_NAMES = frozenset({"np", "scipy", "ref", *dir(builtins)})
_PACKAGE = Path(__file__).resolve().parents[1] / "python" / "facula"
_BITS = (ast.BitAnd, ast.BitOr, ast.BitXor, ast.LShift, ast.RShift, ast.Invert)


class Validator:
    """Notes what is wrong with records beyond their form."""

    def __init__(self, schema: Schema, errors: Errors, invalid: set[str]) -> None:
        self.tests = property_tests()
        self.functions = reference_functions()
        self.schema = schema
        self.errors = errors
        self.invalid = invalid  # what is missing from these may be a mistake already noted
        self.arity = {f.name: len(f.arguments) for f in schema.math}
        self.operator_names = {op.name for op in schema.callables}

    def run(self) -> None:
        schema = self.schema
        self.twice("operator", [(op.name, op.location) for op in schema.callables])
        self.twice("vocabulary word", [(f.name, f.location) for f in schema.math])
        self.twice("shape rule", [(r.signature.name, r.location) for r in schema.rules])
        self.symbols()
        self.vocabulary()
        for op in schema:
            self.signature(op)
            self.scalar(op)
            self.derivatives(op)
            self.parts(op)
            self.casts(op)
            self.batches(op)
            self.test_specification(op)
        for op in schema.definitions:
            self.signature(op)
            self.definition(op)
        self.clashes()

    def definition(self, op: Operator) -> None:
        """It runs something, and only formulas can call it."""
        self.parts(op)
        if cpp_types.mutates(op):
            message = "a definition writes nothing; 'op' makes an operator of it"
            self.errors.add(op.location, op.name, message)

    def twice(self, what: str, records: Iterable[tuple[str, Location]]) -> None:
        first: dict[str, Location] = {}
        for name, place in records:
            if name in first:
                message = f"the {what} is declared twice, first in line {first[name].line}"
                self.errors.add(place, name, message)
            first.setdefault(name, place)

    def symbols(self) -> None:
        """`max.dim` and `max_dim` would be one C++ function, `max.out` the out= form of `max`."""
        seen: dict[str, Operator] = {}
        for op in self.schema.callables:
            for form in forms_of(op):
                other = seen.setdefault(form.name, op)
                if other.name != op.name:
                    message = f"'{op.name}' and '{other.name}' are one name in C++, {form.name}"
                    self.errors.add(op.location, op.name, f"{message}; rename one")
                    break

    def vocabulary(self) -> None:
        written = vocabulary.classes()
        for function in self.schema.math:
            if function.name not in written:
                message = f"no function '{function.name}' in {', '.join(vocabulary.HEADERS)} of "
                message += f"python/facula/include/facula{nearest(function.name, written)}"
                self.errors.add(function.location, function.name, message)
            if function.onnx is not None:
                onnx_names.check(function.onnx, function.arguments, function.name, self.errors)
            checker = expr.Checker(self.errors, function.name)
            for formula in function.derivatives:
                if formula is not None:
                    checker.scalar(formula, function.arguments, self.arity)

    # ---- signatures ----

    def signature(self, op: Operator) -> None:
        text = str(op.signature)

        def add(part: object, message: str) -> None:
            self.errors.add(op.place("signature", text.rindex(str(part))), op.name, message)

        known = (*RESULTS, "Tensor!")
        for r in op.signature.returns:
            if r.type.mutable and not cpp_types.mutates(op):
                add(r, "'Tensor!' is the argument that is written, but no argument is a 'Tensor!'")
            elif str(r.type) not in known:
                add(r, f"no results of type {r.type}; known are {', '.join(known)}")
        arguments = op.signature.arguments
        for a, following in itertools.pairwise(arguments):
            if a.type.varargs and not following.keyword_only:
                add(a, f"'{a.name}' takes all that follows; put '*' after it, or write int[]")
        for a in arguments:
            if a.name == "out" and "out" in op.variants:
                add(a, "'out' is the argument of the out= form; use another name")

    # ---- formulas of elements ----

    def scalar(self, op: Operator) -> None:
        arguments = op.signature.arguments
        known = [a.name for a in arguments if a.type.base != "str" and not a.type.is_list]
        optional = [a.name for a in arguments if a.type.optional and not a.type.is_tensor]
        checker = expr.Checker(self.errors, op.name, optional)
        for _, formula in op.scalar:
            checker.scalar(formula, known, self.arity)
            self.bits(op, formula)
        for derivative in op.derivatives:
            if derivative.scalar is not None:
                checker.scalar(derivative.scalar, [*known, "grad", "result"], self.arity)
        for _, formula in op.reduction:
            checker.scalar(formula, ["acc", "self"], self.arity)
        ways = {key for key, _ in op.reduction} - {"start"}
        if op.reduction and ways not in ({"step"}, {"index"}):
            message = "a 'reduction' has one of 'step' and 'index', and may have 'start'"
            self.errors.add(op.location, op.name, message)
        if op.scalar and op.name not in self.invalid:
            self.outputs(op)
        tensors = [a.name for a in op.signature.tensor_arguments]
        for i, name in enumerate(op.masks):
            if name not in tensors:
                hint = suggestion(name, tensors, "tensor arguments are")
                message = f"no tensor argument '{name}'{hint}"
                self.errors.add(op.place(f"masks.{i}"), op.name, message)
        results = [r.name for r in op.signature.returns if r.name is not None]
        for i, name in enumerate(op.kept):
            if name not in results:
                hint = suggestion(name, results, "named results are")
                self.errors.add(op.place(f"kept.{i}"), op.name, f"no result '{name}'{hint}")

    def outputs(self, op: Operator) -> None:
        """A formula for each output, or for each value of the one str argument."""
        count, keys = len(op.signature.returns), [key for key, _ in op.scalar]
        message = ""
        if op.scalar_variants:
            if sum(a.type.base == "str" for a in op.signature.arguments) != 1:
                named = ", ".join(r.name for r in op.signature.returns if r.name)
                outputs = f"the outputs ({named})" if named else "the outputs, which have no names,"
                message = f"the keys of 'scalar' are {outputs} or the values of one str argument"
        elif count == 0:
            message = "a formula needs an output; '-> Tensor' in the signature"
        elif count != len(keys):
            message = f"{count} {_s('output', count)} need{'s' * (count == 1)} {count} "
            message += f"{_s('formula', count)}, found {len(keys)}"
        if message:
            self.errors.add(op.place("scalar"), op.name, message)

    def bits(self, op: Operator, formula: Formula) -> None:
        wrong = [c for c in op.dtypes if c not in ("bool", "int")]
        for node in ast.walk(formula.tree):
            if wrong and isinstance(node, ast.BinOp | ast.UnaryOp) and isinstance(node.op, _BITS):
                message = f"`{signs.sign_of(node.op)}` is for bools and integers; 'dtypes' has "
                message += ", ".join(wrong)
                self.errors.add(expr.place(formula, node), op.name, message)

    # ---- derivatives ----

    def derivatives(self, op: Operator) -> None:
        inputs = [a.name for a in op.signature.arguments if a.type.base == "Tensor"]
        stated: list[str] = []
        for derivative in op.derivatives:
            for name in derivative.inputs:
                place = op.place(f"derivative.{name}")
                if name not in inputs:
                    hint = suggestion(name, inputs, "tensor inputs are") or "; there is none"
                    self.errors.add(place, op.name, f"no tensor input '{name}'{hint}")
                elif name in stated:
                    self.errors.add(place, op.name, f"two derivatives for '{name}'")
                stated.append(name)
            self.incoming(op, derivative, inputs)
            automatic = derivative.auto or derivative.scalar is not None
            if automatic and not op.scalar and op.name not in self.invalid:
                which = "'auto'" if derivative.auto else "'scalar: ...'"
                message = (
                    f"{which} is for operators with a 'scalar' formula; state a tensor formula"
                )
                self.errors.add(derivative.location, op.name, message)
        missing = [n for n in inputs if n not in stated and n not in op.masks]
        if missing and needs_derivatives(op) and op.name not in self.invalid:
            names = ", ".join(f"'{n}'" for n in missing)
            message = f"no derivative for {names}: a formula, 'zero' or 'none: reason'"
            self.errors.add(op.place("derivative"), op.name, message)

    # ---- kernels, shapes, variants ----

    def parts(self, op: Operator) -> None:
        add, arguments = self.errors.add, op.signature.arguments
        for device, symbol in op.dispatch:
            place = op.place(f"dispatch.{device}")
            if device not in DEVICES:
                add(place, op.name, f"unknown device '{device}'{suggestion(device, DEVICES)}")
            elif symbol == "none":
                add(place, op.name, f"a kernel for {device}, or no entry for it")
        if op.scalar and op.dispatch:
            message = "'scalar' gives the kernels of every device; 'dispatch' has no place"
            add(op.place("dispatch"), op.name, message)
        runs = op.scalar or op.dispatch or op.composite or op.composite_fn
        if op.name in self.invalid:
            return
        if not runs:
            message = "nothing to run: give 'scalar', 'composite', 'composite_fn' or 'dispatch'"
            add(op.location, op.name, message)
        if op.composite and op.composite_fn:
            message = "'composite' and 'composite_fn' say the same twice; keep one"
            add(op.place("composite_fn"), op.name, message)
        self.opaque(op)
        shaped = op.kind in SHAPED and op.dispatch and cpp_types.returns_tensors(op)
        if shaped and len(op.shape) != len(op.signature.returns):
            if op.shape:
                count = len(op.signature.returns)
                message = f"{count} {_s('output', count)}, {len(op.shape)} "
                message += _s("shape", len(op.shape))
            else:
                message = f"kind {op.kind} needs 'shape': a shape rule over its arguments"
            add(op.place("shape"), op.name, message)
        if op.scalar and op.shape:
            add(op.place("shape"), op.name, "a pointwise operator broadcasts; drop 'shape'")
        if op.variants != DEFAULT_VARIANTS.get(op.kind, ()):
            first = arguments[0].type.is_tensor if arguments else False
            if "inplace" in op.variants and not first:
                add(op.place("variants"), op.name, "'inplace' needs a tensor as first argument")
            if "out" in op.variants and not cpp_types.returns_tensors(op):
                add(op.place("variants"), op.name, "'out' needs results that are new tensors")
        self.in_place(op)
        self.reached(op)
        self.flops(op)
        if op.onnx is not None:
            onnx_names.check(
                op.onnx, [a.name for a in op.signature.arguments], op.name, self.errors
            )

    def opaque(self, op: Operator) -> None:
        """What no formula says is code, which says why no formula does."""
        code = next((k for k in ("composite_fn", "batch_fn") if getattr(op, k)), "")
        if code and not op.opaque:
            message = f"'{code}' is C++, which formulas could not say: why not is 'opaque'"
            self.errors.add(op.place(code), op.name, message)
        elif op.opaque and not code:
            message = "'opaque' says why something is C++: neither 'composite_fn' nor 'batch_fn' is"
            self.errors.add(op.place("opaque"), op.name, message)

    def flops(self, op: Operator) -> None:
        """Names, functions and facts that a formula of operations may use."""
        formula = op.flops
        if formula is None:
            return
        known = {"result", *(a.name for a in op.signature.arguments)}
        known.update(r.name for r in op.signature.returns if r.name)
        called = {id(n.func) for n in ast.walk(formula.tree) if isinstance(n, ast.Call)}
        for node in ast.walk(formula.tree):
            if isinstance(node, ast.Attribute) and node.attr not in FLOPS_FACTS:
                message = f"flops: unknown fact '{node.attr}'{suggestion(node.attr, FLOPS_FACTS)}"
            elif isinstance(node, ast.Name) and id(node) in called:
                if node.id in FLOPS_FUNCTIONS:
                    continue
                message = f"flops: unknown function '{node.id}'"
                message += suggestion(node.id, FLOPS_FUNCTIONS)
            elif isinstance(node, ast.Name) and node.id not in known:
                message = f"flops: unknown name '{node.id}'{suggestion(node.id, sorted(known))}"
            else:
                continue
            self.errors.add(expr.place(formula, node), op.name, message)

    def in_place(self, op: Operator) -> None:
        """What is written to keeps its dtype, and takes no result of a higher class."""
        if "inplace" not in op.variants:
            return
        place = op.place("variants")
        if (
            len(op.signature.returns) == 1
            and op.scalar
            and not any(fits_itself(op, class_) for class_ in op.dtypes)
        ):
            message = f"no `self` of {' or '.join(op.dtypes)} holds the result in place: "
            message += f"'promote: {op.promote}' gives a higher dtype; 'variants' without 'inplace'"
            self.errors.add(place, op.name, message)

    def reached(self, op: Operator) -> None:
        """A place in Python's packages that nothing leads to."""
        for i, path in enumerate(op.python):
            place = op.place(f"python.{i}")
            if path == "method" and f"python.{i}" in op.places and not takes_self(op):
                self.errors.add(place, op.name, "a 'method' needs a tensor as first argument")
            if path in PLACES or path in signs.ALL:
                continue
            space = path.rpartition(".")[0]
            file = _PACKAGE.joinpath(*space.split("."))
            files = (file.with_suffix(".py"), file / "__init__.py")
            source = next((f for f in files if f.exists()), None)
            name = "_C._" + space.replace(".", "_")
            if source is None and ("." in space or file.exists()):
                message = f"no module 'facula.{space}' in python/facula leads to '{path}'"
                self.errors.add(place, op.name, message)
            elif source is not None and name not in source.read_text(encoding="utf-8"):
                message = f"'{path}' cannot be reached: {source.relative_to(_PACKAGE.parent)} "
                self.errors.add(place, op.name, f"{message}takes nothing from {name}")

    def incoming(self, op: Operator, derivative: Derivative, inputs: Sequence[str]) -> None:
        """Where an input is called `grad`, the incoming gradient is `grad_output`."""
        if derivative.formula is None or "grad" not in inputs or len(op.signature.returns) != 1:
            return
        if "grad_output" not in expr.names(derivative.formula):
            message = "'grad' is the input of that name; the incoming gradient is 'grad_output'"
            self.errors.add(derivative.formula.location, op.name, message)

    def casts(self, op: Operator) -> None:
        """Autocast casts what functions read; the dtype of what is made or written stays."""
        if not op.autocast:
            return
        message = ""
        if cpp_types.mutates(op) or op.kind in ("factory", "random", "mutation"):
            message = "'autocast' is for operators that neither write nor draw"
        elif not any(a.type.base == "Tensor" for a in op.signature.arguments):
            message = "'autocast' needs a tensor to cast"
        elif "float" not in op.dtypes:
            message = "'autocast' is for operators of floats; 'dtypes' has " + ", ".join(op.dtypes)
        if message:
            self.errors.add(op.place("autocast"), op.name, message)

    def batches(self, op: Operator) -> None:
        """The key `batch` is for kernels, and says of each argument what fits its type."""
        if not op.batch:
            return
        message = ""
        if not op.dispatch and not op.scalar:
            message = "'batch' is for operators with kernels; compositions follow from their parts"
        elif batching.derived(op) == batching.rule_of(op):
            told = "'axes' says" if op.axes else f"the kind '{op.kind}' says"
            message = f"'batch' says what {told} already"
        for name, role in itertools.chain(*op.batch_rules):
            message = self.batch_role(op, name, role) or message
        if message:
            self.errors.add(op.place("batch"), op.name, message)

    @staticmethod
    def batch_role(op: Operator, name: str, role: str) -> str:
        """What is wrong with the role of an argument or a result."""
        kinds = {a.name: a.type for a in op.signature.arguments}
        results = dict(zip(batching.result_names(op), op.signature.returns, strict=True))
        kind = kinds.get(name) or (results[name].type if name in results else None)
        if kind is None:
            return f"'batch' names no argument '{name}'{suggestion(name, [*kinds, *results])}"
        if name not in kinds:
            fits = kind.base == "Tensor" and role in ("fold", "channels")
        elif kind.base == "Tensor":
            fits = role in ("aligned", "fold", "channels", "alone")
        else:
            lists = role in ("fold", "order", "sizes", "expanded", "strides")
            fits = kind.base == "int" and role not in ("aligned", "channels", "alone")
            fits = fits and (kind.is_list or not lists)
        return "" if fits else f"'{name}' is {kind} and cannot be '{role}' in 'batch'"

    # ---- samples and references ----

    def test_specification(self, op: Operator) -> None:
        add = self.errors.add
        for i, sample in enumerate(op.samples):
            problem = check_sample(op, sample)
            if problem is not None:
                offset, message = problem
                add(op.place(f"samples.{i}", offset), op.name, f"sample `{sample}`: {message}")
        if op.reference is not None:
            self.reference(op, op.reference)
        if op.property_test is not None and op.property_test not in self.tests:
            hint = suggestion(op.property_test, self.tests)
            add(op.place("property"), op.name, f"no property test '{op.property_test}'{hint}")
        if op.name in self.invalid:
            return
        self.differentiated(op)
        if op.internal:
            return
        if not op.samples:
            add(op.location, op.name, "missing key 'samples': calls such as \"f(3,4), dim=1\"")
        if op.reference is None and op.property_test is None:
            message = "missing key 'reference': a NumPy expression, or 'property': a test's name"
            add(op.location, op.name, message)
        if op.reference is not None and op.property_test is not None:
            add(op.place("property"), op.name, "'property' stands instead of 'reference'")

    def differentiated(self, op: Operator) -> None:
        """A derivative that no sample takes is tested by nothing."""
        if not op.samples or any(e.subject == op.name for e in self.errors):
            return
        seen = set().union(*(differentiated(op, sample) for sample in op.samples))
        for derivative in op.derivatives:
            if derivative.formula is None and not derivative.auto and derivative.scalar is None:
                continue
            for name in derivative.inputs:
                if name not in seen and name not in op.masks:
                    *words, last = (f"`{word}(...)`" for word in DIFFERENTIABLE)
                    message = f"no sample takes the derivative of '{name}': give it a tensor by "
                    message += f"{', '.join(words)} or {last}"
                    self.errors.add(op.place("samples"), op.name, message)

    def reference(self, op: Operator, text: str) -> None:
        place = op.places.get("reference")
        runs = place.runs if place is not None else ()
        try:
            formula = expr.parse(text.rstrip(), op.place("reference"), runs)
        except expr.FormulaError as error:
            message = error.message.replace("not a formula", "not a Python expression")
            at = op.place("reference", error.offset)
            self.errors.add(at, op.name, f"reference: {message}")
            return
        arguments = [a.name for a in op.signature.arguments]
        known = {*arguments, *_bound(formula.tree)}
        for node in ast.walk(formula.tree):
            hidden = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
            if isinstance(node, ast.Lambda) or hidden.startswith("__"):
                what = "`lambda`" if isinstance(node, ast.Lambda) else f"`{hidden}`"
                message = f"reference: {what} is hard to read; write a function of tests/ops/"
                message += "array_reference.py or its neighbours, and call it as `ref.NAME`"
                self.errors.add(expr.place(formula, node), op.name, message)
                continue
            named = isinstance(node, ast.Attribute) and ast.unparse(node.value) == "ref"
            if named and hidden not in self.functions:
                message = f"reference: no function '{hidden}' in tests/ops/*_reference.py"
                message += nearest(hidden, self.functions)
                self.errors.add(expr.place(formula, node), op.name, message)
            if not isinstance(node, ast.Name) or node.id in known or node.id in _REFERENCE_NAMES:
                continue
            hint = suggestion(node.id, [*arguments, "np", "scipy"])
            at = expr.place(formula, node)
            self.errors.add(at, op.name, f"reference: unknown name '{node.id}'{hint}")

    # ---- names that Python sees ----

    def clashes(self) -> None:
        """One Python name serves one operator with its overloads."""
        owners: dict[tuple[str, str], Operator] = {}
        noted: set[tuple[str, str]] = set()
        for op in self.schema:
            for path, name in [*python_names(op), *inplace_names(op)]:
                other = owners.setdefault((path, name), op)
                pair = (op.name, other.name)
                if pair in noted or other.base_name == op.base_name:
                    continue
                if not _shared(op, other, name):
                    noted.add(pair)
                    shown = f"facula.{path}.{name}" if path else f"facula.{name}"
                    message = f"{shown} is '{other.name}' of line {other.location.line} already"
                    key = f"alias.{op.alias.index(name)}" if name in op.alias else "python"
                    self.errors.add(op.place(key), op.name, message)
            for i, token in enumerate(op.python):
                if token in signs.ALL:
                    other = owners.setdefault(("operator", token), op)
                    if other.base_name != op.base_name:
                        message = f"'{token}' is '{other.name}' of line {other.location.line}"
                        self.errors.add(op.place(f"python.{i}"), op.name, f"{message} already")


def _shared(op: Operator, other: Operator, name: str) -> bool:
    """An alias may collect overloads of the operators that it stands for."""
    return name in op.alias and name in other.alias


def fits_itself(op: Operator, class_: str) -> bool:
    """Whether a formula's result from tensors of a class can be stored in one of them."""
    results = {"bool": "bool", "real": "float" if class_ == "complex" else class_}
    results["float"] = class_ if class_ in ("float", "complex") else "float"
    rank = DTYPE_CLASSES.index
    return rank(results.get(op.promote, class_)) <= rank(class_)


def needs_derivatives(op: Operator) -> bool:
    """Whether each tensor input needs a statement: kernels that take and make real numbers."""
    if op.kind == "composite" or not (op.dispatch or op.scalar):
        # It differentiates through its parts, but for inputs stated as `none`; or says all.
        return any(d.none is None for d in op.derivatives)
    if op.scalar:
        return op.promote != "bool" and bool({"float", "complex"} & set(op.dtypes))
    return any(r.type.base == "Tensor" for r in op.signature.returns)


def _s(noun: str, count: int) -> str:
    return noun if count == 1 else noun + "s"


def _bound(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg
