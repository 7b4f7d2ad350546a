"""Read the labels that an ONNX file states. Classifier nodes of ``ai.onnx.ml``, as skl2onnx writes them, list their classes.

onnxruntime does not show the attributes of nodes, so they are read from the file. The file is a Protocol Buffers message: a list of fields,
each with a field number and a value, which is an integer or a string of bytes. Field numbers are those of ``onnx.proto``.
"""

from __future__ import annotations

from collections.abc import Iterator

_GRAPH, _NODE, _OPERATOR, _ATTRIBUTE, _NAME, _INTS, _STRINGS = 7, 1, 4, 5, 1, 8, 9
_LABELS = (b"classlabels_strings", b"classlabels_int64s", b"classlabels_ints")
_SIZES = {1: 8, 5: 4}
"""The number of bytes of a field of fixed size, by its wire type."""


def stated_labels(content: bytes) -> tuple[str, ...] | None:
    """The labels of a model's probabilities, in their order; None if the file does not state them.

    A ``ZipMap`` node names the outputs of the whole model. Without such a node, all classifiers in the file must list the same labels,
    because the parts of an ensemble may have their own labels.
    """
    by_operator: dict[bytes, list[tuple[str, ...]]] = {}
    for graph in _values(content, _GRAPH):
        for node in _values(graph, _NODE):
            operator = b"".join(_values(node, _OPERATOR))
            by_operator.setdefault(operator, []).extend(filter(None, map(_labels, _values(node, _ATTRIBUTE))))
    zipped = by_operator.get(b"ZipMap") or []
    found = set(zipped or [labels for lists in by_operator.values() for labels in lists])
    return found.pop() if len(found) == 1 else None


def _labels(attribute: bytes) -> tuple[str, ...]:
    if next(iter(_values(attribute, _NAME)), b"") not in _LABELS:
        return ()
    numbers: list[int] = []
    for number, value in _fields(attribute):
        if number == _INTS:
            numbers += [value] if isinstance(value, int) else _packed(value)
    return tuple(text.decode() for text in _values(attribute, _STRINGS)) or tuple(
        str(k - (1 << 64) if k >> 63 else k) for k in numbers
    )


def _values(message: bytes, wanted: int) -> Iterator[bytes]:
    """The contents of the fields with the number ``wanted`` in a message."""
    return (value for number, value in _fields(message) if number == wanted and isinstance(value, bytes))


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    at = 0
    while at < len(message):
        key, at = _whole(message, at)
        kind = key & 7
        if kind == 0:
            value, at = _whole(message, at)
            yield key >> 3, value
            continue
        size, at = _whole(message, at) if kind == 2 else (_SIZES[kind], at)
        yield key >> 3, message[at : at + size]
        at += size


def _packed(content: bytes) -> list[int]:
    found, at = [], 0
    while at < len(content):
        value, at = _whole(content, at)
        found.append(value)
    return found


def _whole(message: bytes, at: int) -> tuple[int, int]:
    """The integer of variable size (seven bits per byte) that begins at the byte ``at``, and the index of the byte after it."""
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
