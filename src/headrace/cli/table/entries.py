"""What ``headrace table`` does with the entries of a table."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any

from headrace.cli.output import print_json, print_line, printable
from headrace.cli.servers import Connection, scoped
from headrace.cli.table.texts import bytes_of, key_of, member, shown, whole_key
from headrace.client.tables.versions import TableVersion
from headrace.errors import InvalidArgumentError, TableKeyMissingError

if TYPE_CHECKING:  # the connection imports the rest of the client when it is made
    from headrace.client.blocking import BlockingKeyValueTable


@contextmanager
def _opened(connection: Connection, table: str) -> Iterator[BlockingKeyValueTable]:
    scope, name = scoped(table)
    with connection.connect() as client, client.key_value_table(scope, name) as opened:
        yield opened


def _key(opened: BlockingKeyValueTable, word: str, *, is_hex: bool) -> Any:
    return key_of(bytes_of(word, is_hex=is_hex), opened.configuration)


def _parse(version: str | None) -> TableVersion | None:
    return None if version is None else TableVersion.from_text(version)


def get_entries(
    *, table: str, keys: Sequence[str], is_hex: bool, connection: Connection, as_json: bool
) -> None:
    with _opened(connection, table) as opened:
        entries = opened.get_all([_key(opened, word, is_hex=is_hex) for word in keys])
    missing = [word for word, entry in zip(keys, entries, strict=True) if entry is None]
    if missing:
        text = f"key-value table {table} has no {', '.join(map(printable, missing))}"
        raise TableKeyMissingError(table, text)
    for entry in filter(None, entries):
        if as_json:
            _print_document(entry)
        else:
            sys.stdout.buffer.write(entry.value + b"\n")


def put_entry(
    *,
    table: str,
    key: str,
    value: str,
    version: str | None,
    if_absent: bool,
    is_hex: bool,
    connection: Connection,
    as_json: bool,
) -> None:
    wanted, data = _parse(version), os.fsencode(value)
    with _opened(connection, table) as opened:
        whole = _key(opened, key, is_hex=is_hex)
        new = opened.insert(whole, data) if if_absent else opened.put(whole, data, wanted)
    if as_json:
        print_json({"version": str(new)})
    else:
        print_line(str(new))


def remove_key(
    *, table: str, key: str, version: str | None, is_hex: bool, connection: Connection, as_json: bool
) -> None:
    wanted = _parse(version)
    with _opened(connection, table) as opened:
        opened.remove(_key(opened, key, is_hex=is_hex), wanted)
    if as_json:
        print_json({"removed": True})


def scan_table(
    *,
    table: str,
    count: int | None,
    only_keys: bool,
    is_hex: bool,
    connection: Connection,
    as_json: bool,
    **bounds: str | None,
) -> None:
    """Print entries; ``bounds`` are ``primary``, ``first``, ``last`` and ``prefix``."""
    if count is not None and count < 1:
        raise InvalidArgumentError(f"at least 1 entry has to be read, not {count}")
    given = {name: None if word is None else bytes_of(word, is_hex=is_hex) for name, word in bounds.items()}
    with _opened(connection, table) as opened:
        found: Iterable[Any] = opened.scan_keys(**given) if only_keys else opened.scan(**given)
        for each in islice(found, count):
            if as_json:
                _print_document(each)
                continue
            key = printable(shown(whole_key(each.key), is_hex=is_hex)).encode()
            line = key if only_keys else b"%b\t%b" % (key, each[1])
            sys.stdout.buffer.write(line + b"\n")
        sys.stdout.buffer.flush()


def _print_document(each: Any) -> None:
    document = member("key", whole_key(each.key))
    if len(each) == 3:
        document |= member("value", each[1])
    print_json(document | {"version": str(each.version)})
