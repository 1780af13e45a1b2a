"""One table: what each REST operation does, takes and answers, for the OpenAPI document. Pure.

Who may call it is in ``rules.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from headrace.controller.rest import models as m
from headrace.web.models import HealthStatus, Model, OptimiserRequest, OptimiserStatus


@dataclass(frozen=True, slots=True)
class Option:
    """An option behind the question mark of an address."""

    name: str
    kind: type
    text: str
    required: bool = False


@dataclass(frozen=True, slots=True)
class Operation:
    """A verb of a path."""

    name: str
    text: str
    answers: Any = None
    """The type of the JSON; None: the answer is empty."""

    status: int = 200
    body: type[Model] | None = None
    options: tuple[Option, ...] = ()
    refusals: tuple[int, ...] = ()
    """Beside those that every operation of its kind has."""

    content_type: str = "application/json"


_SCOPES: Final = "/v1/scopes"
_SCOPE: Final = "/v1/scopes/{scope}"
_STREAMS: Final = f"{_SCOPE}/streams"
_STREAM: Final = f"{_STREAMS}/{{stream}}"
_GROUP: Final = f"{_SCOPE}/readergroups/{{group}}"
_HEALTH: Final = "/v1/health"
_JSON_OBJECT: Final = dict[str, Any]

_TIME: Final = "ms since 1970"

_HEALTH_VIEWS: Final[Mapping[str, tuple[Any, str]]] = {
    "readiness": (bool, "whether every part is ready"),
    "liveness": (bool, "whether it lives"),
    "status": (str, "UP, STARTING or DOWN"),
    "details": (dict[str, str], "what else there is to say"),
}

OPERATIONS: Final[Mapping[tuple[str, str], Operation]] = {
    ("GET", "/ping"): Operation("ping", "Answer, and nothing else."),
    ("GET", "/health"): Operation("health", "Health of the process and its parts.", HealthStatus),
    ("GET", "/ready"): Operation(
        "ready", "The same, with status 503 unless every part is ready.", HealthStatus, refusals=(503,)
    ),
    ("GET", "/live"): Operation(
        "live", "The same, with status 503 unless the process is alive.", HealthStatus, refusals=(503,)
    ),
    ("GET", "/metrics"): Operation(
        "metrics",
        "What is counted, in the format of Prometheus or OpenMetrics.",
        str,
        content_type="text/plain",
    ),
    ("GET", "/openapi.json"): Operation("openapi", "This document.", _JSON_OBJECT),
    ("GET", "/docs"): Operation("docs", "This document, for people.", str, content_type="text/html"),
    ("GET", "/docs.css"): Operation("docsStyle", "How that page looks.", str, content_type="text/css"),
    ("GET", _SCOPES): Operation("listScopes", "List scopes.", m.ScopesList),
    ("POST", _SCOPES): Operation(
        "createScope", "Create a scope.", m.ScopeProperty, 201, m.CreateScopeRequest, refusals=(409,)
    ),
    ("GET", _SCOPE): Operation("getScope", "Show a scope.", m.ScopeProperty),
    ("DELETE", _SCOPE): Operation("deleteScope", "Delete an empty scope.", status=204, refusals=(412,)),
    ("GET", _STREAMS): Operation(
        "listStreams",
        "List the streams of a scope.",
        m.StreamsList,
        options=(
            Option("filter_type", str, "showInternalStreams, or tag"),
            Option("filter_value", str, "the tag"),
        ),
    ),
    ("POST", _STREAMS): Operation(
        "createStream", "Create a stream.", m.StreamProperty, 201, m.CreateStreamRequest, refusals=(409,)
    ),
    ("GET", _STREAM): Operation("getStream", "Show the configuration of a stream.", m.StreamProperty),
    ("PUT", _STREAM): Operation(
        "updateStream",
        "Update the configuration of a stream; 500 if it is sealed.",
        m.StreamProperty,
        body=m.UpdateStreamRequest,
        refusals=(500,),
    ),
    ("DELETE", _STREAM): Operation("deleteStream", "Delete a sealed stream.", status=204, refusals=(412,)),
    ("PUT", f"{_STREAM}/state"): Operation(
        "updateStreamState", "Seal a stream.", m.StreamState, body=m.StreamState
    ),
    ("GET", f"{_STREAM}/scaling-events"): Operation(
        "getScalingEvents",
        "The stream epochs of a period, with the last one before it in front; at most 1,000.",
        list[m.ScaleMetadata],
        options=(Option("from", int, _TIME, required=True), Option("to", int, _TIME, required=True)),
    ),
    ("GET", f"{_STREAM}/cut"): Operation(
        "getCutAt",
        "Where the stream was at a time.",
        m.CutAtTime,
        options=(Option("at", int, _TIME, required=True),),
    ),
    ("GET", "/v1/streams"): Operation(
        "listAllStreams",
        "List streams of all scopes with what is known of each, a page at a time.",
        m.StreamFactsPage,
        options=(
            Option("search", str, "only those whose SCOPE/STREAM, or one of whose tags, has this text"),
            Option("limit", int, "streams in a page at most: 1 to 1,000; 100 if it is left out"),
            Option("token", str, "where the page before ended"),
        ),
    ),
    ("GET", f"{_STREAM}/events"): Operation(
        "readEvents",
        "Some events from a position on, and the cut behind them; bounded in events, bytes and seconds.",
        m.EventsPage,
        options=(
            Option("from", str, "head, or tail: the last events; head if it is left out"),
            Option("cut", str, "the text of a cut, instead"),
            Option("at", int, f"a time instead, {_TIME}"),
            Option("limit", int, "events at most: 1 to 1,000; 100 if it is left out"),
            Option("decode", str, "auto, text, json or hex; auto if it is left out"),
        ),
    ),
    ("POST", f"{_STREAM}/events"): Operation(
        "appendEvent",
        "Append one event; answers when it is durable. A call whose answer was lost may have appended it.",
        m.AppendedEvent,
        201,
        m.AppendRequest,
        refusals=(412,),
    ),
    ("PUT", f"{_STREAM}/truncation"): Operation(
        "truncateStream",
        "Drop what lies before a cut, also of a sealed stream.",
        m.Cut,
        body=m.TruncateRequest,
    ),
    ("POST", f"{_STREAM}/purge"): Operation(
        "purgeStream",
        "Make what lies before the head unreadable on every disk; answers when it is done.",
        m.PurgedStream,
        refusals=(500,),
    ),
    ("GET", f"{_SCOPE}/readergroups"): Operation(
        "listReaderGroups", "List the reader groups of a scope.", m.ReaderGroupsList
    ),
    ("GET", _GROUP): Operation("getReaderGroup", "Show a reader group.", m.ReaderGroupProperty),
    ("DELETE", _GROUP): Operation("deleteReaderGroup", "Delete a reader group.", status=204),
    ("GET", _HEALTH): Operation("getHealth", "Health of the process and its parts.", HealthStatus),
    ("GET", f"{_HEALTH}/{{part}}"): Operation("getPartHealth", "Health of one part.", HealthStatus),
    **{
        ("GET", f"{_HEALTH}/{name}{tail}"): Operation(
            f"get{whose}{name.title()}", f"Of {what}: {text}; always with status 200.", kind
        )
        for name, (kind, text) in _HEALTH_VIEWS.items()
        for tail, whose, what in (("", "", "the process"), ("/{part}", "Part", "one part"))
    },
    ("GET", "/v1/cluster/health"): Operation(
        "getClusterHealth",
        "Health of every segment store and container, wherever they run, and of this controller.",
        HealthStatus,
    ),
    ("GET", "/v1/storage/optimiser"): Operation(
        "getOptimiser", "How far the merging of small chunks is.", OptimiserStatus, refusals=(404,)
    ),
    ("PUT", "/v1/storage/optimiser"): Operation(
        "pauseOptimiser",
        "Pause or resume the merging of small chunks.",
        OptimiserStatus,
        body=OptimiserRequest,
        refusals=(404, 503),
    ),
    ("GET", "/v1/debug/statistics"): Operation(
        "getStatistics",
        "What every part of the process counts, and of the stores of its cluster. No stable interface.",
        _JSON_OBJECT,
        options=(Option("container", int, "only this container"),),
        refusals=(404, 503),
    ),
    ("GET", "/v1/debug/failed-events"): Operation(
        "getFailedEvents", "Requests between controllers that were set aside.", m.FailedEvents
    ),
}
"""By verb and path, without a slash at its end. A HEAD is a GET."""

PARAMETERS: Final[Mapping[str, str]] = {
    "scope": "The name of a scope.",
    "stream": "The name of a stream.",
    "group": "The name of a reader group.",
    "part": "GRPCServer, eventProcessor, transactions, or container-N.",
}
"""The parts of paths that are names."""
