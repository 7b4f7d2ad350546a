"""The page that documents the API. The server makes it from the OpenAPI document, without remote scripts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request, Response

from proofmap.app.pages import page, style_sheet, theme_script

Schema = Mapping[str, Any]

_KINDS = {
    "integer": "whole number",
    "boolean": "true or false",
    "string": "text",
    "object": "record",
    None: "anything",
}
_BOUNDS = {
    "minimum": "at least {}",
    "exclusiveMinimum": "above {}",
    "maximum": "at most {}",
    "exclusiveMaximum": "below {}",
    "minLength": "{} characters at least",
    "maxLength": "{} characters at most",
    "minItems": "{} or more",
    "maxItems": "{} at most",
    "pattern": "of the form {}",
}


@dataclass(frozen=True)
class Field:
    """A parameter of a route, or a field of a record."""

    name: str
    kind: str
    about: str
    required: bool
    schema: str = ""
    """The name of the record type that the value is or contains; empty if there is none."""


@dataclass(frozen=True)
class Route:
    verb: str
    path: str
    about: str
    parameters: Sequence[Field]
    body: Sequence[Field]
    answers: Sequence[Field]


def api_page(links: Mapping[str, str]) -> APIRouter:
    """The routes of the page ``/api``, its style sheet and its theme script. ``links`` are the titles and addresses of the other pages."""
    router = APIRouter(include_in_schema=False)

    @router.get("/api")
    async def read_api(request: Request) -> Response:
        document = request.app.openapi()
        schemas = document.get("components", {}).get("schemas", {})
        return page(
            "api.html",
            links=links,
            about=document["info"],
            openapi=request.app.openapi_url,
            routes=routes_of(document),
            schemas={
                name: (schema.get("description", ""), fields_of(schema)) for name, schema in schemas.items()
            },
        )

    @router.get("/api/style.css")
    async def style() -> Response:
        return Response(style_sheet(), media_type="text/css")

    @router.get("/api/theme.js")
    async def theme() -> Response:
        return Response(theme_script(), media_type="text/javascript")

    return router


def routes_of(document: Schema) -> list[Route]:
    """The routes of an OpenAPI document, in its order."""
    return [
        Route(
            verb.upper(),
            path,
            route.get("description") or route.get("summary", ""),
            [
                Field(
                    p["name"],
                    f"{type_text(p.get('schema', {}))} ({p.get('in', '')})",
                    p.get("description", ""),
                    p.get("required", False),
                )
                for p in route.get("parameters", ())
            ],
            _contents("body", route.get("requestBody", {}).get("content", {})),
            [
                field
                for code, answer in route.get("responses", {}).items()
                if code.startswith("2")  # errors have one form, which the page shows once
                for field in _contents(code, answer.get("content", {}))
            ],
        )
        for path, verbs in document["paths"].items()
        for verb, route in verbs.items()
    ]


def fields_of(schema: Schema) -> list[Field]:
    """The fields of a record, given its JSON schema."""
    required = schema.get("required", ())
    return [
        Field(name, type_text(inner), inner.get("description", ""), name in required, record_in(inner))
        for name, inner in schema.get("properties", {}).items()
    ]


def type_text(schema: Schema) -> str:
    """A description in words of the values that a JSON schema allows.

    >>> type_text({"type": "array", "items": {"type": "integer"}, "maxItems": 3})
    'list of whole numbers, 3 at most'
    >>> type_text({"anyOf": [{"type": "number", "minimum": 0}, {"type": "null"}]})
    'number, at least 0, or null'
    """
    for several in ("anyOf", "oneOf"):
        if several in schema:
            return ", or ".join(type_text(inner) for inner in schema[several])
    if "$ref" in schema:
        return record_in(schema)
    if "const" in schema or "enum" in schema:
        return ", ".join(str(value) for value in schema.get("enum", [schema.get("const")]))
    bounds = [text.format(schema[key]) for key, text in _BOUNDS.items() if key in schema]
    return ", ".join([_kind(schema), *bounds])


def record_in(schema: Schema) -> str:
    """The name of the record that a value with this schema is or contains; empty if there is none."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    inside = [*schema.get("anyOf", ()), *schema.get("oneOf", ())]
    inside += [
        schema[key] for key in ("items", "additionalProperties") if isinstance(schema.get(key), Mapping)
    ]
    return next((name for name in map(record_in, inside) if name), "")


def _kind(schema: Schema) -> str:
    match schema.get("type"):
        case "array":
            return f"list of {_plural(type_text(schema.get('items', {})))}"
        case "object" if isinstance(schema.get("additionalProperties"), Mapping):
            return f"table of {_plural(type_text(schema['additionalProperties']))} by name"
        case "string" if schema.get("format") == "binary":
            return "bytes"
        case other:
            return _KINDS.get(other, str(other))


def _plural(kind: str) -> str:
    return f"{kind}s" if kind in ("whole number", "number", "text") else kind


def _contents(name: str, content: Schema) -> list[Field]:
    """A field for each media type that a request body or an answer may have."""
    return [
        Field(name, f"{type_text(schema)} ({form})", "", True, record_in(schema))
        for form, inner in content.items()
        for schema in [inner.get("schema", {})]
    ]
