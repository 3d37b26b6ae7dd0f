"""YAML with places: the text of a schema file, its nodes and where each character came from."""

from __future__ import annotations

from pathlib import Path

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from .errors import Errors, SchemaError, SchemaErrors
from .model import Location

_Loader: type = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_SPACE = " \n\t"
Runs = tuple[tuple[int, int, int], ...]


class Placed(ScalarNode):
    """A text that differs from what the file has there, and knows where its pieces stand."""

    def __init__(self, node: ScalarNode, value: str, runs: Runs) -> None:
        super().__init__(node.tag, value, node.start_mark, node.end_mark, node.style)
        self.runs = runs


class Source:
    """A YAML file composed into nodes, which know their places."""

    def __init__(self, path: Path, name: str | None = None) -> None:
        self.file = name or path.name
        try:
            self.text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            before = error.object[: error.start].decode().splitlines() or [""]
            place = Location(self.file, len(before), len(before[-1]) + 1)
            problem = f"not YAML: the byte 0x{error.object[error.start]:02x} is no UTF-8"
            raise SchemaErrors([SchemaError(place, "", problem)]) from None
        self._runs: dict[tuple[int, int], Runs] = {}
        self._starts = [0]
        for line in self.text.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))

    def compose(self) -> Node | None:
        loader = _Loader(self.text)
        try:
            node: Node | None = loader.get_single_node()
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            place = Location(self.file, mark.line + 1, mark.column + 1) if mark else self.top
            raise SchemaErrors([SchemaError(place, "", f"not YAML: {_problem(error)}")]) from None
        except yaml.reader.ReaderError as error:
            line = self.text.count("\n", 0, error.position) + 1
            place = Location(self.file, line, error.position - self._starts[line - 1] + 1)
            problem = f"the character {chr(error.character)!r} is not allowed"
            raise SchemaErrors([SchemaError(place, "", f"not YAML: {problem}")]) from None
        finally:
            loader.dispose()
        return node

    @property
    def top(self) -> Location:
        return Location(self.file, 1, 1)

    def place(self, node: Node) -> Location:
        """Where a node begins: the first character of a scalar's text, past quotes and `|`."""
        runs = self.runs(node) if isinstance(node, ScalarNode) and node.style else ()
        if runs:
            return Location(self.file, runs[0][1], runs[0][2])
        return Location(self.file, node.start_mark.line + 1, node.start_mark.column + 1)

    def runs(self, node: ScalarNode) -> Runs:
        """(offset in the value, line, column) of each stretch that stands unbroken in the file."""
        if isinstance(node, Placed):
            return node.runs
        key = (node.start_mark.index, node.end_mark.index)
        if key not in self._runs:
            self._runs[key] = self._aligned(node)
        return self._runs[key]

    def _aligned(self, node: ScalarNode) -> Runs:
        """The value is aligned with the raw text, which differs by quotes, escapes, indentation
        and folded line ends; only the characters that are not white space need to agree."""
        value: str = node.value
        raw = self.text
        line, at = node.start_mark.line, self._offset(node.start_mark)
        end = self._offset(node.end_mark)
        if node.style in ("|", ">"):
            line += 1
            at = self._starts[line]
        elif node.style in ("'", '"'):
            at += 1
        runs: list[tuple[int, int, int]] = []
        previous = -2
        for offset, char in enumerate(value):
            if char in _SPACE:
                continue
            while at < end and raw[at] != char:
                at += 1
            if at >= end:
                break
            while line + 1 < len(self._starts) and self._starts[line + 1] <= at:
                line += 1
            shift = at - offset
            if shift != previous:
                runs.append((offset, line + 1, at - self._starts[line] + 1))
                previous = shift
            at += 1
        return tuple(runs)

    def _offset(self, mark: yaml.Mark) -> int:
        return self._starts[mark.line] + mark.column


class Record:
    """A mapping whose keys are taken one by one; what is left over is unknown."""

    def __init__(self, source: Source, node: MappingNode, subject: str, errors: Errors) -> None:
        self.source = source
        self.errors = errors
        self.subject = subject
        self.location = source.place(node)
        self.keys: dict[str, Location] = {}
        self._values: dict[str, Node] = {}
        for key_node, value in node.value:
            place = source.place(key_node)
            key = scalar_text(key_node)
            if key is None:
                errors.add(place, subject, "a key must be plain text")
            elif key in self._values:
                first = self.keys[key].line
                errors.add(place, subject, f"key '{key}' is given twice, first in line {first}")
            else:
                self.keys[key] = place
                self._values[key] = value

    def take(self, key: str) -> Node | None:
        return self._values.pop(key, None)

    def items(self) -> list[tuple[str, Node]]:
        return list(self._values.items())

    def left(self) -> list[str]:
        return list(self._values)

    def error(self, where: Node | Location, message: str) -> None:
        place = where if isinstance(where, Location) else self.source.place(where)
        self.errors.add(place, self.subject, message)

    def text(self, node: Node, what: str) -> ScalarNode | None:
        """The node if it is a scalar; otherwise the mistake is noted."""
        if isinstance(node, ScalarNode):
            return node
        quote = (
            "; quote a text that begins with '[' or '{'"
            if getattr(node, "flow_style", False)
            else ""
        )
        self.error(node, f"{what} must be text{quote}")
        return None

    def text_list(self, node: Node, what: str) -> list[ScalarNode]:
        """A list of texts; a single text counts as a list of one."""
        if isinstance(node, ScalarNode):
            return [node]
        if not isinstance(node, SequenceNode):
            self.error(node, f"{what} must be a list")
            return []
        return [item for item in node.value if self.text(item, f"an item of {what}") is not None]

    def mapping(self, node: Node, what: str) -> Record | None:
        if isinstance(node, MappingNode):
            return Record(self.source, node, self.subject, self.errors)
        self.error(node, f"{what} must be a mapping")
        return None


_ADVICE = {
    "mapping values are not allowed": "quote a text that holds ': '",
    "did not find expected key": "indent the keys of a record alike",
    "but found another document": "the file is one list of records",
    "found undefined alias": "quote a text that begins with '*'",
    "did not find expected alphabetic": "quote a text that begins with '*' or '&'",
    "found character that cannot start any token": "quote the text",
}


def _problem(error: yaml.MarkedYAMLError) -> str:
    """What YAML says, and what to do about the commonest mistakes."""
    problem = error.problem or error.context or ""
    advice = next((a for start, a in _ADVICE.items() if problem.startswith(start)), "")
    return f"{problem}; {advice}" if advice else problem


def scalar_text(node: Node) -> str | None:
    return node.value if isinstance(node, ScalarNode) else None
