"""Freed memory is kept by the process where that is asked for, and left as it was where it is not."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from proofmap.core import allocator

ALLOCATION = ("MALLOC_", "GLIBC_", "LD_")
TAKING = """
import ctypes, resource, runpy, sys
if len(sys.argv) > 1:  # the file alone, without torch
    print(runpy.run_path(sys.argv[1])["keep_memory"]())
def taken():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(8):
        ctypes.memset(block := libc.malloc(64 * 2**20), 1, 64 * 2**20)
        libc.free(block)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]
taken()
print(taken())
"""
pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or "glibc" not in os.confstr("CS_GNU_LIBC_VERSION").lower(),  # type: ignore[union-attr]
    reason="a setting of Linux's usual C library",
)


def said(*arguments: str) -> list[str]:
    free = {name: value for name, value in os.environ.items() if not name.startswith(ALLOCATION)}
    ran = subprocess.run(
        [sys.executable, "-c", TAKING, *arguments], env=free, capture_output=True, text=True, check=True
    )
    return ran.stdout.split()


def test_a_block_that_is_freed_and_taken_again_is_not_taken_from_the_system_anew() -> None:
    (plain,) = said()
    done, kept = said(allocator.__file__)
    assert done == "True" and int(kept) < 100 < 1000 < int(plain)


@pytest.mark.parametrize("name", ["MALLOC_ARENA_MAX", "GLIBC_TUNABLES", "LD_PRELOAD"])
def test_what_the_environment_says_is_left_alone(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise AssertionError("the C library was asked")

    monkeypatch.setenv(name, "")
    monkeypatch.setattr(allocator.ctypes, "CDLL", refused)
    assert not allocator.keep_memory()
