"""``serve``: serves a web page that explains photos, rows, series or texts, and the JSON API behind the page."""

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

from proofmap.cli import options
from proofmap.cli.console import print_result, stderr
from proofmap.core.errors import InputError, require
from proofmap.data.specs import open_data, read_for

if TYPE_CHECKING:
    from fastapi import FastAPI

    from proofmap.app.security import Access

_SHUTDOWN_SECONDS = 1
"""Seconds that open connections may take to finish when the server is stopped."""


def serve(
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port; 0 takes any free one.")] = 8000,
    host: Annotated[
        str,
        typer.Option(
            help="Address to listen on. If other machines can reach it, they need the token that is printed."
        ),
    ] = "127.0.0.1",
    model: Annotated[
        list[str] | None,
        typer.Option(help="A net to add to the installed ones; it is chosen at first. May be repeated."),
    ] = None,
    weights: Annotated[Path | None, options.WEIGHTS] = None,
    data: Annotated[
        str | None,
        typer.Option(
            help="Rows, series or texts to choose from: a CSV file; .ts, .npz or .wav for a net of series; or another dataset.",
            show_default=False,
        ),
    ] = None,
    target: Annotated[str | None, options.TARGET] = None,
    text_column: Annotated[str | None, options.TEXT_COLUMN] = None,
    method: Annotated[
        list[str] | None,
        typer.Option(
            *options.METHOD, help="A method to add to the listed ones, such as file.py:NAME. May be repeated."
        ),
    ] = None,
    device: Annotated[str | None, options.DEVICE] = None,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")
    ] = True,
) -> None:
    for package in ("fastapi", "uvicorn"):
        require(package, extra="app", purpose="proofmap serve")
    from proofmap.app.application import create_app
    from proofmap.app.choices import Choices
    from proofmap.app.items import Items
    from proofmap.app.nets import Nets, plural
    from proofmap.app.security import Access
    from proofmap.app.server import Server
    from proofmap.core.inputs import KINDS
    from proofmap.models.spec import ModelSpec

    if weights is not None and not model:
        raise InputError("--weights needs --model, the net that the weights belong to")
    if (data or target or text_column) and not model:
        raise InputError(
            "--data, --target and --text-column need --model, a model of tables, series or texts"
        )
    where = options.check_device(device)
    places = options.with_columns([data] if data else None, target, text_column)
    first = ModelSpec.parse(model[0]) if model else None
    needs_rows = first is not None and first.reads_file
    dataset = open_data(places) if places and needs_rows else None
    listening = _listening(host, port)
    access = Access.at(host, listening.getsockname()[1])
    try:
        nets, choices = Nets.named(model or [], weights, where, dataset), Choices(method or [])
        if model:
            nets.settle()  # report now if it cannot be loaded
        if nets.of_photos and places:
            raise InputError(
                f"{model[0] if model else 'the net'} takes photos: drop them on the page, and leave out --data"
            )
        if places and dataset is None:
            if nets.singular == "series":
                data = str(read_for(str(data), "series"))
            kind = next((name for name in KINDS if KINDS[name].singular == nets.singular), "")
            dataset = nets.data = open_data([str(read_for(places[0], kind))])
        if dataset is None and nets.singular in ("row", "series"):
            raise InputError(
                f"a model of {plural(nets.singular)} needs --data FILE, from which the page lets you choose"
            )
        named = [*([data] if data else []), *(["--target", target] if target else [])]
        named += ["--text-column", text_column] if text_column else []
        server = Server(nets, choices, access, where, items=Items(dataset, named))
        app = create_app(server)
        _print_address(access)
        if browser:
            threading.Timer(0.5, webbrowser.open, [access.address]).start()
        _run(app, listening)
    finally:
        listening.close()


def _print_address(access: Access) -> None:
    print_result(f"Proofmap is at {access.address}")
    if access.token:
        stderr.print(
            f"other machines need the token; programs send it as Authorization: Bearer {access.token}"
        )
    stderr.print("Ctrl-C stops it")
    sys.stdout.flush()  # needed if stdout is a file or a pipe


def _listening(host: str, port: int) -> socket.socket:
    """A socket that listens at this address."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        found = socket.socket(family, kind, protocol)
    except OSError as error:
        raise InputError(
            f"--host {host} is not an address of this machine: {error.strerror or error}"
        ) from None
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(address)
        found.listen(512)
    except OSError as error:
        found.close()
        raise InputError(
            f"port {port} of {host} cannot be used ({error.strerror}); choose another with --port, or --port 0 for any"
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
        timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
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
        stop.add_note("once the server is started again, open pages offer to repeat what they asked for")
        atexit.register(_leave)
        raise


def _leave() -> None:
    """End the process at once: a thread may still be inside torch, and a normal shutdown of the interpreter would abort."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(130)
