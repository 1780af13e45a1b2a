"""How large a few things may be. A bound that is met tells to take something away, not to raise it."""

import pytest

from headrace.processes.config import StandaloneConfig
from headrace.runtime.settings import walk
from tests.tidy.source_tree import SRC, modules

PRODUCT = SRC / "headrace"

ROOMS = {
    ".": (750, "errors, limits, the names that users import"),
    "btree": (1_550, "pages, reads, updates and compaction of a tree"),
    "cli": (9_800, "nouns and verbs, their help and tables"),
    "client": (25_800, "every call of the library, with and without a loop"),
    "client/.": (2_650, "what its rooms share: configuration, services, forks"),
    "client/blocking": (3_250, "each call once more, for threads"),
    "client/connections": (1_140, "sockets, TLS and their failures"),
    "client/control": (1_850, "calls to the controller"),
    "client/face": (1_410, "the classes that users hold"),
    "client/framing": (500, "events in bytes, and back"),
    "client/groups": (2_560, "readers that share streams: states, updates, who reads what"),
    "client/reader": (3_520, "readers of events, bytes, columns, cuts"),
    "client/records": (900, "the envelope of records, one by one and in columns"),
    "client/revisions": (760, "states that are shared, and streams of revisions"),
    "client/tables": (1_150, "keys and values by hash"),
    "client/writer": (5_050, "exactly once through reconnects and scales"),
    "cluster": (
        2_650,
        "which store serves each container: plans, steps, nodes, and what they say",
    ),
    "console": (1_340, "pages for browsers: the picture, tables, forms, who has signed in"),
    "controller": (18_450, "streams, transactions and the work on them"),
    "controller/.": (740, "engine, context and server"),
    "controller/api": (1_680, "a call of the protocol each"),
    "controller/buckets": (880, "who does whose work"),
    "controller/events": (420, "hints in an internal stream"),
    "controller/policies": (1_120, "decisions about scales, retention, times"),
    "controller/rest": (
        2_330,
        "routes about streams, their documents, rules; events without a client",
    ),
    "controller/segments": (1_680, "calls to segment stores, here and over connections, to one and to all"),
    "controller/services": (1_370, "the background work of an owner"),
    "controller/settings": (90, "its part of the configuration"),
    "controller/store": (2_350, "rows, and their bytes"),
    "controller/streams": (2_400, "what rows say about a stream"),
    "controller/transactions": (1_050, "their states and timeouts"),
    "controller/workflows": (2_950, "each change of a stream, step by step"),
    "coordination": (1_560, "nodes, sessions and leases, in memory and over ZooKeeper"),
    "data_directory": (1_550, "what a directory is, whose, and what it lost"),
    "demo": (1_160, "the main job, checked"),
    "local_cluster": (790, "a cluster on one machine: what runs when, its directory, its processes"),
    "model": (2_400, "words that all packages share"),
    "processes": (3_420, "start and end of each kind of process, what it calls, and what a store counts"),
    "repair": (1_520, "rebuild, repair of chunks, and moves of logs"),
    "rpc": (630, "conversions and refusals; what is generated is not counted"),
    "runtime": (2_650, "all that is of the machine"),
    "security": (2_340, "users, grants, what callers need, tokens, TLS"),
    "segmentstore": (24_300, "durable segments, and all that is bounded in them"),
    "segmentstore/.": (840, "the store that puts the rooms together"),
    "segmentstore/admission": (830, "fair queue and throttle"),
    "segmentstore/attributes": (920, "indexes of attributes"),
    "segmentstore/container": (3_570, "the life of one container"),
    "segmentstore/durablelog": (2_280, "frames, replay, truncation"),
    "segmentstore/hosting": (600, "which containers run here"),
    "segmentstore/ingress": (3_680, "sessions of each kind of request"),
    "segmentstore/inspection": (1_450, "reads what logs and chunks mean"),
    "segmentstore/operations": (580, "each operation, and its bytes"),
    "segmentstore/readindex": (2_670, "cache, storage and the tail"),
    "segmentstore/scaling": (540, "loads and their reports"),
    "segmentstore/state": (1_320, "legal changes, and checkpoints of them"),
    "segmentstore/storagewriter": (2_450, "from the log to chunks"),
    "segmentstore/tables": (3_470, "entries, index, compaction"),
    "spark": (4_480, "source and sink, batch and stream"),
    "storage": (10_600, "segments as chunks, in any store"),
    "storage/.": (625, "inspection and identity"),
    "storage/checkpoints": (1_010, "copies of logs beside chunks"),
    "storage/chunks": (4_060, "plans over chunks, and their drivers"),
    "storage/metadata": (540, "rows about chunks"),
    "storage/providers": (3_700, "files, object stores, HDFS"),
    "storage/transfer": (640, "copy, export, import"),
    "testing": (9_700, "simulation, faults, conformance kits"),
    "wal": (11_350, "logs, and what keeps them"),
    "wal/.": (1_750, "the contract, frames, logs in memory"),
    "wal/bookkeeper": (3_670, "a row of ledgers of BookKeeper: bytes, plans, connections, the log"),
    "wal/file": (3_930, "fenced, recycled files that recover"),
    "wal/objects": (2_200, "objects that are created once, in a bucket"),
    "web": (1_530, "the listener, health, metrics, refusals, what is asked of stores"),
    "wire": (2_760, "each command of the protocol, and of our own"),
}
"""Bounds of lines by room, each with what needs them; ``.`` are the modules beside the rooms."""

WITH_ROOMS = ("client", "controller", "segmentstore", "storage", "wal")
"""Packages so large that their rooms have bounds of their own."""


def lines_of(*paths):
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths)


def rooms_of(parts):
    """Return the rooms that a module is in, by the parts of its path."""
    if len(parts) == 1:
        return ["."]
    room = parts[0]
    if room not in WITH_ROOMS:
        return [room]
    return [room, f"{room}/{parts[1] if len(parts) > 2 else '.'}"]


def sizes():
    """Return the lines in each room; those of generated code do not count."""
    found = {}
    for path in modules().values():
        if path.is_relative_to(PRODUCT):
            for room in rooms_of(path.relative_to(PRODUCT).parts):
                found[room] = found.get(room, 0) + lines_of(path)
    return found


def too_large(found, bounds):
    for room, lines in sorted(found.items()):
        if room not in bounds:
            yield f"{room} has no bound: give it one a few per cent above its {lines:,} lines, with a reason"
        elif lines > bounds[room]:
            yield (
                f"{room} has {lines:,} lines and its bound is {bounds[room]:,}: take something away. "
                "A commit that raises a bound says in its body what it tried to take away"
            )
    yield from (f"{room} is gone: take it off the table" for room in sorted(bounds.keys() - found.keys()))


def test_every_room_stays_within_its_bound_of_lines():
    told = list(too_large(sizes(), {room: bound for room, (bound, _) in ROOMS.items()}))
    assert told == [], "\n".join(told)


def test_the_rooms_are_sorted_and_their_bounds_have_reasons():
    assert list(ROOMS) == sorted(ROOMS)
    assert all(reason for _, reason in ROOMS.values())


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ({"a": 10}, []),
        ({"a": 11}, ["a has 11 lines and its bound is 10: take something away"]),
        ({"a": 10, "b": 1}, ["b has no bound"]),
        ({}, ["a is gone"]),
    ],
)
def test_what_is_too_large_is_told(found, expected):
    told = list(too_large(found, {"a": 10}))
    assert len(told) == len(expected)
    assert all(text.startswith(start) for text, start in zip(told, expected, strict=True))


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("errors.py", ["."]),
        ("model/names.py", ["model"]),
        ("wal/config.py", ["wal", "wal/."]),
        ("wal/file/logs.py", ["wal", "wal/file"]),
        ("client/a/b/c.py", ["client", "client/a"]),
    ],
)
def test_a_module_counts_in_its_rooms(path, expected):
    assert rooms_of(path.split("/")) == expected


STORE = PRODUCT / "segmentstore"
BOUNDS = {
    "lines of operation_processor.py": (310, lambda: lines_of(STORE / "durablelog/operation_processor.py")),
    "lines of ingress/connection.py": (350, lambda: lines_of(STORE / "ingress/connection.py")),
    "settings": (73, lambda: len(list(walk(StandaloneConfig)))),
}
"""Each is below its bound."""


@pytest.mark.parametrize("subject", BOUNDS)
def test_a_part_stays_below_its_bound(subject):
    bound, measure = BOUNDS[subject]
    assert measure() < bound
