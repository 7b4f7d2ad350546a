"""Freed memory is kept by the process where that is asked for, and left as it was where it is not."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

from proofmap.core import allocator

ALLOCATION = ("MALLOC_", "GLIBC_TUNABLES", "LD_PRELOAD")
TAKING = """
import ctypes, resource, runpy, sys, threading
if len(sys.argv) > 1:  # the file alone, without torch
    print(runpy.run_path(sys.argv[1])["keep_memory"]())
libc, size = ctypes.CDLL(None), 24 * 2**20
libc.malloc.restype, libc.malloc.argtypes, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]
def step():
    blocks = [libc.malloc(size) for _ in range(3)]
    for block in blocks:
        ctypes.memset(block, 1, size)
    for block in blocks:
        libc.free(block)
def pages():
    step()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(3):
        step()
    print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
pages()
thread = threading.Thread(target=pages)
thread.start()
thread.join()
"""


def said(*arguments: str) -> list[str]:
    free = {name: value for name, value in os.environ.items() if not name.startswith(ALLOCATION)}
    ran = subprocess.run(
        [sys.executable, "-c", TAKING, *arguments], env=free, capture_output=True, text=True, check=True
    )
    return ran.stdout.split()


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="a setting of Linux's usual C library")
def test_blocks_that_are_freed_and_taken_again_are_not_taken_from_the_system_anew() -> None:
    plain = [int(pages) for pages in said()]
    done, *kept = said(allocator.__file__)
    assert done == "True" and all(10 * int(few) < many for few, many in zip(kept, plain, strict=True))


@pytest.mark.parametrize("name", ["MALLOC_ARENA_MAX", "GLIBC_TUNABLES", "LD_PRELOAD"])
def test_what_the_environment_says_is_left_alone(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise AssertionError("the C library was asked")

    monkeypatch.setenv(name, "")
    monkeypatch.setattr(allocator.ctypes, "CDLL", refused)
    assert not allocator.keep_memory()
