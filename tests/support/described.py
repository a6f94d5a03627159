"""Requests that follow from a page's own description of itself, sound ones and others; schemathesis makes them."""

from __future__ import annotations

import os
import re
from collections import Counter
from typing import Any

import httpx
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from starlette.applications import Starlette
from starlette.routing import Route

REQUESTS = int(os.environ.get("REQUESTS", "2000"))  # by `make fuzz` more
NOT_SENT = "not sent"


def send_described(client: httpx.Client, description: dict[str, Any], examples: int) -> Counter[int | str]:
    """Send so many requests for each operation, but the one that ends it all; return how many had which status."""
    schema = schemathesis.openapi.from_dict(description)
    schema.config.generation.update(modes=[GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
    statuses: Counter[int | str] = Counter()
    for found in schema.get_all_operations():
        operation = found.ok()
        if operation.path != "/sign-out":
            send(client, operation, examples, statuses)
    return statuses


def send(client: httpx.Client, operation: Any, examples: int, statuses: Counter[int | str]) -> None:
    @settings(
        max_examples=examples,
        phases=[Phase.generate],
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.data())
    def call(data: st.DataObject) -> None:
        case = data.draw(operation.as_strategy())
        csrf = client.headers.get("X-CSRF-Token")
        headers = {"X-CSRF-Token": csrf} if csrf else {}
        values = case.as_transport_kwargs(base_url=str(client.base_url), headers=headers)
        for name in ("cookies", "timeout", "verify"):
            values.pop(name, None)
        if "data" in values and not isinstance(values["data"], dict):
            values["content"] = values.pop("data")
        try:
            statuses[client.request(**values).status_code] += 1
        except (httpx.InvalidURL, httpx.LocalProtocolError, UnicodeError, TypeError, ValueError):
            statuses[NOT_SENT] += 1

    call()


def describe(app: Starlette) -> dict[str, Any]:
    """Describe an application that has routes and no description: their paths, methods, and the sign-in's form."""
    paths: dict[str, Any] = {}
    for route in app.routes:
        if isinstance(route, Route):
            names = re.findall(r"{(\w+)}", route.path)
            text = {"type": "string"}
            parameters = [{"name": n, "in": "path", "required": True, "schema": text} for n in names]
            form = {"type": "object", "properties": {"token": text}, "required": ["token"]}
            body = {"content": {"application/x-www-form-urlencoded": {"schema": form}}}
            for method in (route.methods or set()) - {"HEAD"}:
                operation = {"parameters": parameters, "responses": {"200": {"description": "a page"}}}
                operation |= {"requestBody": body} if method == "POST" else {}
                paths.setdefault(route.path, {})[method.lower()] = operation
    return {"openapi": "3.1.0", "info": {"title": "pages", "version": "1"}, "paths": paths}


def require_no_failure(statuses: Counter[int | str], at_least: int) -> None:
    assert not [status for status in statuses if isinstance(status, int) and status >= 500], statuses
    assert sum(statuses.values()) - statuses[NOT_SENT] > at_least, statuses
