"""``proofmap serve`` as a process of its own, and a client that may send anything."""

from __future__ import annotations

import base64
import itertools
import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from proofmap.classifier import Classifier
from tests.toys import MEAN, STD, conv_net

_SEEDS = itertools.count(1000)
"""Equal requests get one job."""
_ROOT = Path(__file__).parents[2]
_NET = """\
from tests.app.processes import toy


def make():
    return toy()


def slow():
    return toy(0.02)
"""


class Slow(nn.Module):
    """A net that takes its time."""

    def __init__(self, net: nn.Module, seconds: float) -> None:
        super().__init__()
        self.net, self.seconds = net, seconds

    def forward(self, x: Tensor) -> Tensor:
        if x.isfinite().all():  # which cannot be traced, so that the fast copy of the net is slow, too
            time.sleep(self.seconds)
        found: Tensor = self.net(x)
        return found


def toy(seconds: float = 0.0) -> Classifier:
    """A net of 8 x 8 pixels and five labels that takes so long for each batch."""
    net, names = conv_net(5, seed=0), ("cat", "dog", "cup", "rocket", "car")
    return Classifier(Slow(net, seconds), size=8, mean=MEAN, std=STD, batch_size=64, names=names)


@dataclass(frozen=True)
class Answer:
    """What a server sent; status 0 where it closed the connection without a word."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class Served:
    """A server in a process of its own, with two nets; what it prints goes to a file."""

    def __init__(self, folder: Path, port: int = 0) -> None:
        (folder / "net.py").write_text(_NET)
        (folder / "temporary").mkdir(exist_ok=True)
        self.log = folder / "log.txt"
        arguments = ["--model", f"{folder / 'net.py'}:make", "--model", f"{folder / 'net.py'}:slow"]
        arguments += ["--port", str(port), "--no-browser", "--device", "cpu"]
        path = os.pathsep.join([str(_ROOT / "src"), str(_ROOT), os.environ.get("PYTHONPATH", "")])
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "proofmap", "serve", *arguments],
                cwd=folder,
                env={
                    **os.environ,
                    "PYTHONPATH": path,
                    "OMP_NUM_THREADS": "1",
                    "PYTHONUNBUFFERED": "1",
                    "TMPDIR": str(folder / "temporary"),
                },
                stdout=log,
                stderr=log,
            )
        self.port = self._port(within=600)

    def _port(self, within: float) -> int:
        for _ in range(int(within / 0.05)):
            found = re.findall(r"Proofmap is at http://127\.0\.0\.1:(\d+)/", self.log.read_text())
            if found and self._listens(int(found[-1])):
                return int(found[-1])
            assert self.process.poll() is None, self.log.read_text()
            time.sleep(0.05)
        raise AssertionError("the server does not start")

    def _listens(self, port: int) -> bool:
        self.port = port
        return self.send("GET", "/api/about").status == 200

    @property
    def processor_time(self) -> float:
        """Seconds of processor time that the server has used; unlike the clock, they do not depend on what else runs."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    # ---- requests -----------------------------------------------------------------------------------------------

    def raw(self, request: bytes, *, hang_up: bool = False, timeout: float = 600) -> Answer:
        """Send these bytes, whatever they are, and read until the server closes, or stop sending first."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=timeout) as connection:
            try:
                connection.sendall(request)
                if hang_up:
                    connection.shutdown(socket.SHUT_WR)
            except OSError:  # refused before all was sent; there may be an answer nevertheless
                pass
            got = b""
            try:
                while part := connection.recv(1 << 16):
                    got += part
            except ConnectionError:
                pass
        return _parsed(got)

    def send(
        self, verb: str, path: str, content: object = None, *, headers: Mapping[str, str] | None = None
    ) -> Answer:
        return self.raw(request(verb, path, content, headers=headers, port=self.port))

    def photo(self, content: bytes) -> str:
        answer = self.send("POST", "/api/photos", content, headers={"content-type": "image/png"})
        assert answer.status == 200, answer.body
        return str(answer.json()["photo"])

    def job(self, photo: str, method: str = "gradient", net: str = "net.py:make") -> str:
        asked = {"photo": photo, "net": net, "labels": [0, 1], "methods": [method], "seed": next(_SEEDS)}
        answer = self.send("POST", "/api/jobs", asked)
        assert answer.status == 202, answer.body
        return str(answer.json()["job"])

    def state(self, job: str) -> str:
        return str(self.send("GET", f"/api/jobs/{job}").json()["state"])

    def until(self, job: str, *states: str, within: float = 600) -> str:
        """The first of these states that a job reaches."""
        for _ in range(int(within / 0.03)):
            if (state := self.state(job)) in states:
                return state
            time.sleep(0.03)
        raise AssertionError(f"the job stays {state}")


def request(
    verb: str,
    path: str | bytes,
    content: object = None,
    *,
    headers: Mapping[str, str] | None = None,
    port: int = 8000,
) -> bytes:
    """A request as bytes; content is bytes, or becomes JSON."""
    body = b"" if content is None else content if isinstance(content, bytes) else json.dumps(content).encode()
    told = {"Host": f"127.0.0.1:{port}", "Connection": "close"}
    if content is not None:
        told |= {"Content-Length": str(len(body)), "Content-Type": "application/json"}
    for name, value in (headers or {}).items():
        told = {key: kept for key, kept in told.items() if key.lower() != name.lower()} | {name: value}
    where = path if isinstance(path, bytes) else path.encode()
    lines = [verb.encode() + b" " + where + b" HTTP/1.1"]
    lines += [f"{name}: {value}".encode("latin-1") for name, value in told.items()]
    return b"\r\n".join([*lines, b"", body])


def _parsed(got: bytes) -> Answer:
    head, _, body = got.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    found = re.match(r"HTTP/1\.[01] (\d{3})", lines[0])
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
    return Answer(int(found[1]) if found else 0, headers, body)


def mask(pixels: int = 64) -> str:
    """A mask of the toy net, half of it shown."""
    return base64.b64encode(b"\xff" * (pixels // 16) + b"\0" * (pixels // 16)).decode()
