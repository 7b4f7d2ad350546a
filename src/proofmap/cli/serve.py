"""``serve``: a page on this machine on which anyone plays with proofs, and the API behind it."""

from __future__ import annotations

import atexit
import os
import socket
import sys
import threading
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from proofmap.cli.console import print_result, stderr
from proofmap.cli.options import Device, Weights, device_named
from proofmap.core.errors import InputError, require

if TYPE_CHECKING:
    from fastapi import FastAPI

    from proofmap.app.security import Access

_PATIENCE = 1
"""Seconds that open connections get when the server is stopped."""


def serve(
    port: Annotated[int, typer.Option(min=0, max=65_535, help="0 takes any that is free.")] = 8000,
    host: Annotated[
        str, typer.Option(help="The loopback, or an address that others reach: they need the token then.")
    ] = "127.0.0.1",
    model: Annotated[
        list[str] | None,
        typer.Option(
            help="A net beside those installed, chosen at first; may be given again.", show_default=False
        ),
    ] = None,
    weights: Weights = None,
    method: Annotated[
        list[str] | None,
        typer.Option(
            help="A method beside those listed, such as file.py:NAME; may be given again.", show_default=False
        ),
    ] = None,
    runs: Annotated[
        Path | None, typer.Option(help="Folder of run directories that can be looked at.", show_default=False)
    ] = None,
    device: Device = None,
    api_only: Annotated[bool, typer.Option("--api-only", help="No page, only the JSON API.")] = False,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")
    ] = True,
) -> None:
    for package in ("fastapi", "uvicorn"):
        require(package, extra="app", purpose="proofmap serve")
    from proofmap.app.application import create_app
    from proofmap.app.choices import Choices
    from proofmap.app.nets import Nets, offers
    from proofmap.app.security import Access
    from proofmap.app.server import Server

    if weights is not None and not model:
        raise InputError("--weights are those of a --model; name it, too")
    if runs is not None and not runs.is_dir():
        raise InputError(f"there is no folder {runs}; name the one that holds run directories")
    where = device_named(device)
    listening = _listening(host, port)
    access = Access.at(host, listening.getsockname()[1])
    try:
        nets, choices = Nets(offers(model or [], weights, where)), Choices(method or [])
        if model:
            nets.classifier(nets.first)  # what is wrong with it is said now
        server = Server(nets, choices, access, where, runs)
        app = create_app(server, api_only=api_only)
        _tell(access, api_only)
        if browser and not api_only:
            threading.Timer(0.5, webbrowser.open, [access.address]).start()
        _run(app, listening)
    finally:
        listening.close()


def _tell(access: Access, api_only: bool) -> None:
    bare, _, token = access.address.partition("?")
    print_result(f"Proofmap is at {bare + 'api' if api_only else access.address}")
    if token:
        stderr.print(f"others need the token: programs send it as Authorization: Bearer {access.token}")
    stderr.print("Ctrl-C stops it")
    sys.stdout.flush()  # also into a file or a pipe


def _listening(host: str, port: int) -> socket.socket:
    """A socket at this address, which nobody else has."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        found = socket.socket(family, kind, protocol)
    except OSError as error:
        raise InputError(f"--host {host} is no address of this machine: {error.strerror or error}") from None
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(address)
        found.listen(512)
    except OSError as error:
        found.close()
        raise InputError(
            f"port {port} of {host} cannot be had ({error.strerror}); choose another with --port, or --port 0 for any"
        ) from None
    return found


def _run(app: FastAPI, listening: socket.socket) -> None:
    import uvicorn

    from proofmap.app.protocol import TimedProtocol

    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=_PATIENCE,
        limit_concurrency=1000,
        h11_max_incomplete_event_size=65_536,
        http=TimedProtocol,
        ws="none",
    )
    try:
        uvicorn.Server(config).run(sockets=[listening])
    except (Exception, SystemExit):
        raise
    except BaseException as stop:  # Ctrl-C, after open connections were closed
        stop.add_note("open pages offer to run again what they asked for, once it is started again")
        atexit.register(_leave)
        raise


def _leave() -> None:
    """End the process as it is: a thread may still be inside torch (a net's step, a pool of random images being made), and
    tearing the interpreter down under it aborts."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(130)
