"""What a function does, as a digest: the only thing that tells two functions of one name apart."""

from __future__ import annotations

import functools
import hashlib
import types
from collections.abc import Callable


def code_digest(function: Callable[..., object]) -> str:
    """A digest of a function's own code and constants; what it calls, and its closed-over values, are not looked at.

    Empty for what has no Python code of its own (a built-in, an object without ``__call__`` in Python).

    >>> def f(x):
    ...     return x + 1
    >>> def g(x):
    ...     return x + 2
    >>> code_digest(f) == code_digest(g), code_digest(len)
    (False, '')
    """
    if isinstance(function, functools.partial):
        return code_digest(function.func)
    code = getattr(function, "__code__", None) or getattr(type(function).__call__, "__code__", None)
    if not isinstance(code, types.CodeType):
        return ""
    digest = hashlib.blake2b(digest_size=8)
    _add(digest, code)
    return digest.hexdigest()


def foreign_code(thing: object, function: str) -> dict[str, str]:
    """The code of an object's method, as a setting, where its class is not ours: other people's code changes under us.

    >>> foreign_code(3, "__add__")
    {}
    """
    if type(thing).__module__.partition(".")[0] == "proofmap":
        return {}
    found = code_digest(getattr(type(thing), function, len))
    return {"code": found} if found else {}


def _add(digest: hashlib.blake2b, code: types.CodeType) -> None:
    digest.update(code.co_code + repr((code.co_names, code.co_varnames)).encode())
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            _add(digest, constant)
        else:  # the order in which a set is printed changes from process to process
            plain = sorted(map(repr, constant)) if isinstance(constant, frozenset) else constant
            digest.update(repr(plain).encode())
