"""The API as a page and in the documentation: every route, every record, no remote file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest.importorskip("fastapi")

from fastapi.testclient import TestClient

from proofmap.app.api_page import fields_of, record_in, routes_of, type_text
from proofmap.app.application import create_app
from tests.app.served import HOME, made
from tests.docs.pages import DOCS


@pytest.fixture
def client(tmp_path: Path) -> TestClient:
    return TestClient(create_app(made(runs=tmp_path)), base_url=HOME)


def test_the_page_has_every_route_and_record_of_the_document(client: TestClient) -> None:
    document = client.get("/api/openapi.json").json()
    page = client.get("/api")
    assert page.status_code == 200 and page.headers["content-type"].startswith("text/html")
    shown = re.sub(r"<[^>]+>", "", page.text)
    for path, verbs in document["paths"].items():
        for verb in verbs:
            assert f"{verb.upper()} {path}" in shown
    for name, schema in document["components"]["schemas"].items():
        assert f'id="{name}"' in page.text
        assert all(field in shown for field in schema.get("properties", {}))
    linked = set(re.findall(r'href="#([^"]+)"', page.text)) - {"content"}
    assert linked <= set(document["components"]["schemas"])


def test_the_page_needs_no_other_server_and_no_inline_script(client: TestClient) -> None:
    page = client.get("/api")
    assert set(re.findall(r'(?:src|href)="([^"#]+)"', page.text)) == {
        "data:,",
        "/api/style.css",
        "/api/theme.js",
        "/api/openapi.json",
        "/",
        "/idea",
        "/runs",
        "/runs/compare",
        "/api",
    }
    assert re.findall(r"<script[^>]*>(.*?)</script>", page.text) == [""] and "style=" not in page.text
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert client.get("/api/style.css").headers["content-type"].startswith("text/css")
    assert client.get("/api/theme.js").headers["content-type"].startswith("text/javascript")


def test_without_a_page_and_without_runs_nothing_is_linked_that_is_not_there() -> None:
    alone = TestClient(create_app(made(), api_only=True), base_url=HOME)
    page = alone.get("/api").text
    assert set(re.findall(r'href="([^"#]+)"', page)) == {"data:,", "/api/style.css", "/api/openapi.json"}
    assert "RunList" not in page
    without = TestClient(create_app(made()), base_url=HOME)
    for page in ("/runs", "/runs/compare"):  # they are linked, and say how to get a run
        assert page in without.get("/api").text and "proofmap serve --runs" in without.get(page).text


def test_the_documentation_names_every_route_and_no_other(client: TestClient) -> None:
    told = re.findall(
        r"^\| `([A-Z]+) (/api[^`]*)`", (DOCS / "reference" / "api.md").read_text("utf-8"), re.MULTILINE
    )
    there = [
        (verb.upper(), path)
        for path, verbs in client.get("/api/openapi.json").json()["paths"].items()
        for verb in verbs
    ]
    assert sorted(told) == sorted(there)


def test_types_in_words() -> None:
    assert (
        type_text({"type": "string", "pattern": "^a$", "maxLength": 3})
        == "text, 3 characters at most, of the form ^a$"
    )
    assert type_text({"enum": ["a", "b"], "type": "string"}) == "a, b"
    listed = {"type": "array", "items": {"$ref": "#/components/schemas/Belief"}}
    assert type_text(listed) == "list of Belief" and record_in(listed) == "Belief"
    table = {"type": "object", "additionalProperties": {"type": "object", "additionalProperties": listed}}
    assert record_in(table) == "Belief" and type_text({}) == "anything" and record_in({}) == ""
    (field,) = fields_of({"properties": {"n": {"type": "integer", "minimum": 1}}, "required": ["n"]})
    assert (field.name, field.kind, field.required) == ("n", "whole number, at least 1", True)
    (route,) = routes_of({"paths": {"/a": {"get": {"summary": "A", "responses": {"200": {}, "404": {}}}}}})
    assert (route.verb, route.path, route.about, route.answers) == ("GET", "/a", "A", [])
