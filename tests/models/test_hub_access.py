"""A hub is asked once, for a short time, before anything is downloaded; no test here leaves this machine."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from proofmap.core.errors import ModelError
from proofmap.models import hubs, load_classifier

hub: Any = pytest.importorskip("huggingface_hub")
CONFIG = "config.json"


class Server:
    """A server on this machine that counts what it is asked, and answers everything with one status."""

    def __init__(self, status: int) -> None:
        asked = self.asked = list[str]()

        class Handler(BaseHTTPRequestHandler):
            def do_HEAD(self) -> None:
                asked.append(self.path)
                self.send_response(status)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                return

        self.http = HTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.http.server_address[1]}"
        threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()


@pytest.fixture
def server(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    server = Server(request.param)
    address = hub.hf_hub_url
    monkeypatch.setattr(hub, "hf_hub_url", lambda *given: address(*given, endpoint=server.address))
    yield server
    server.http.shutdown()
    server.http.server_close()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of the hub."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def put_into(cache: Path, repository: str, file: str) -> None:
    folder = cache / f"models--{repository.replace('/', '--')}"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text("0" * 40)
    (folder / "snapshots" / ("0" * 40)).mkdir(parents=True)
    (folder / "snapshots" / ("0" * 40) / file).write_text("{}")


@pytest.mark.parametrize("server", [503, 429, 500], indirect=True)
def test_a_hub_that_fails_is_asked_once(server: Server, cache: Path) -> None:
    with pytest.raises(
        ModelError,
        match=r"cannot be reached .*asked once, for at most 5 s\), and the net is not in the local cache",
    ):
        hubs._ask_hugging_face("org/net", [CONFIG], extra="hf")
    assert server.asked == [f"/org/net/resolve/main/{CONFIG}"]


@pytest.mark.parametrize("server", [503], indirect=True)
def test_without_the_hub_the_cache_is_enough(server: Server, cache: Path) -> None:
    put_into(cache, "org/net", CONFIG)
    assert not hubs._ask_hugging_face("org/net", ["other.json", CONFIG], extra="hf")
    assert hubs._folder_or_repository("hf", "org/net") == {"local_files_only": True}


@pytest.fixture
def transformers_that_load_nothing(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What is asked of transformers, which raises in place of loading; it need not be installed."""
    asked: list[Any] = []

    def from_pretrained(name: str, **settings: Any) -> None:
        asked.append((name, settings))
        raise OSError("nothing is loaded here")

    auto = SimpleNamespace(from_pretrained=from_pretrained)
    fake = SimpleNamespace(AutoModelForImageClassification=auto, AutoConfig=auto, AutoModel=auto)
    require = hubs.require
    monkeypatch.setattr(
        hubs,
        "require",
        lambda module, **settings: fake if module == "transformers" else require(module, **settings),
    )
    return asked


@dataclass
class Asked:
    """What the hub was asked, in place of which it raises an error."""

    error: Exception = field(default_factory=lambda: ConnectionError("no route to host"))
    questions: list[tuple[str, Any]] = field(default_factory=list)

    def __call__(self, url: str, **settings: Any) -> None:
        self.questions.append((url.partition("/resolve/")[0].partition(".co/")[2], settings))
        raise self.error


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, cache: Path) -> Asked:
    monkeypatch.setattr(hub, "get_hf_file_metadata", found := Asked())
    return found


LIMIT = {"timeout": 5.0}


@pytest.mark.parametrize("spec", ["hf:vitt", "hf:vitt?pretrained=false", "clip:vitt?labels=cat,dog"])
def test_a_folder_that_is_not_there_is_named_before_the_hub(
    spec: str,
    transformers_that_load_nothing: list[Any],
    asked: Asked,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "vit").mkdir()
    told = (
        rf"^{spec.partition(':')[0]}:vitt cannot be loaded: there is no folder 'vitt', and Hugging.*"
        r"no route to host; asked once, for at most 5 s.*Did you mean 'vit'\?$"
    )
    with pytest.raises(ModelError, match=told):
        load_classifier(spec)
    assert asked.questions == [("vitt", LIMIT)], "asked once, for a short time"
    assert transformers_that_load_nothing == [], "which would try again and again"


def test_a_repository_that_is_not_there_is_told(
    asked: Asked, transformers_that_load_nothing: list[Any]
) -> None:
    missing = hub.errors.RepositoryNotFoundError
    asked.error = missing.__new__(missing)
    with pytest.raises(
        ModelError, match="there is no folder 'org/net', and Hugging Face's hub has no repository 'org/net'"
    ):
        load_classifier("hf:org/net")


def test_timm_asks_once_before_it_downloads(
    timm: ModuleType, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timm, "create_model", lambda *_, **__: pytest.fail("began a download"))
    with pytest.raises(ModelError, match=r"hub cannot be reached .*no route to host.*not in the local cache"):
        load_classifier("timm:resnet18.a1_in1k")
    assert asked.questions == [("timm/resnet18.a1_in1k", LIMIT)]
