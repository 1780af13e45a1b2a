"""The OpenAPI document as a page for people: plain HTML and its style. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator
from html import escape
from typing import Any, Final

STYLE_PATH: Final = "/docs.css"

STYLE: Final = """
body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}
h2{margin-top:2rem;text-transform:capitalize}
details{border:1px solid #8886;border-radius:4px;margin:.3rem 0;padding:.3rem .6rem}
summary{cursor:pointer}
code,pre{font:13px/1.4 ui-monospace,monospace}
pre{overflow:auto;margin:.3rem 0}
b.verb{display:inline-block;width:4.5rem}
:root{color-scheme:light dark}
"""

_VERBS: Final = ("get", "post", "put", "delete")


def docs_page(document: dict[str, Any]) -> str:
    """Return the page."""
    info = document["info"]
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width">',
            f"<title>{escape(info['title'])} REST</title>",
            f'<link rel="stylesheet" href="{STYLE_PATH}"></head><body>',
            f"<h1>{escape(info['title'])} {escape(info['version'])}: REST</h1>",
            f'<p>{escape(info["description"])} For programs: <a href="/openapi.json">openapi.json</a>.</p>',
            *_operations(document),
            "<h2>Objects</h2>",
            *_objects(document["components"]["schemas"]),
            "</body></html>",
        ]
    )


def _operations(document: dict[str, Any]) -> Iterator[str]:
    by_tag: dict[str, list[str]] = {}
    for path, verbs in document["paths"].items():
        for verb in _VERBS:
            if verb in verbs:
                by_tag.setdefault(verbs[verb]["tags"][0], []).append(_operation(verb, path, verbs[verb]))
    for tag, operations in by_tag.items():
        yield f"<h2>{escape(tag)}</h2>"
        yield from operations


def _operation(verb: str, path: str, operation: dict[str, Any]) -> str:
    lines = [operation.get("description", "No credentials are needed.")]
    lines += [
        f"?{option['name']}= ({option['schema']['type']}{', required' if option['required'] else ''}): "
        f"{option['description']}"
        for option in operation.get("parameters", ())
    ]
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    body = operation.get("requestBody")
    if body is not None:
        items += f"<li>takes {_content(body['content'])}</li>"
    for status, response in operation["responses"].items():
        content = f": {_content(response['content'])}" if "content" in response else ""
        items += f"<li>{status} {escape(response['description'].rstrip('.'))}{content}</li>"
    head = f'<b class="verb">{verb.upper()}</b> <code>{escape(path)}</code> {escape(operation["summary"])}'
    return f"<details><summary>{head}</summary><ul>{items}</ul></details>"


def _content(content: dict[str, Any]) -> str:
    ((kind, found),) = content.items()
    schema = found["schema"]
    name = _name(schema)
    if name:
        return f'<a href="#{escape(name)}">{escape(name)}</a>'
    inner = _name(schema.get("items", {}))
    if inner:
        return f'a list of <a href="#{escape(inner)}">{escape(inner)}</a>'
    return escape(kind if kind != "application/json" else schema.get("type", kind))


def _name(schema: dict[str, Any]) -> str:
    return str(schema.get("$ref", "")).rpartition("/")[2]


def _objects(schemas: dict[str, Any]) -> Iterator[str]:
    for name, schema in schemas.items():
        text = escape(json.dumps(schema, indent=2, ensure_ascii=False))
        about = escape(schema.get("description", ""))
        yield (
            f'<details open id="{escape(name)}"><summary><code>{escape(name)}</code> {about}</summary>'
            f"<pre>{text}</pre></details>"
        )
