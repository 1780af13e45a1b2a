"""``headrace table``: key-value tables, their entries and their ranges."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any

from headrace.cli.output import print_fields, print_json, print_line, printable
from headrace.cli.table_texts import bytes_of, key_of, member, shown, whole_key
from headrace.cli.verbs import Subparsers, add_confirmation, add_noun, add_verb, confirm, connect, scoped
from headrace.errors import (
    InvalidArgumentError,
    KeyValueTableExistsError,
    NoSuchKeyValueTableError,
    TableKeyMissingError,
)

if TYPE_CHECKING:  # the client is imported by the verb when it is executed: help is fast
    from headrace.client.blocking import BlockingKeyValueTable
    from headrace.client.tables.versions import TableVersion


def register(nouns: Subparsers[argparse.ArgumentParser]) -> None:
    verbs = add_noun(nouns, "table", "Create key-value tables, put, get, scan and remove their entries.")
    _register_tables(verbs)
    _register_entries(verbs)


def _register_tables(verbs: Subparsers[argparse.ArgumentParser]) -> None:
    lists = add_verb(
        verbs, "list", list_tables, "List the key-value tables of a scope.", "headrace table list demo"
    )
    lists.add_argument("scope", metavar="SCOPE")

    create = add_verb(
        verbs,
        "create",
        create_table,
        "Create a key-value table.",
        """
        headrace table create demo/prices --primary 8
        headrace table create demo/orders --primary 8 --secondary 4 --partitions 16
        """,
    )
    create.add_argument("table", metavar="SCOPE/TABLE")
    create.add_argument("--primary", type=int, required=True, metavar="BYTES", help="of every primary key")
    create.add_argument("--secondary", type=int, default=0, metavar="BYTES", help="of every secondary key")
    create.add_argument("--partitions", type=int, default=1, metavar="N", help="for ever (default: 1)")
    create.add_argument("--rollover", metavar="SIZE", help="of chunks in long-term storage, such as 64MiB")
    create.add_argument("--if-absent", action="store_true", help="succeed if the table exists already")

    describe = add_verb(
        verbs,
        "describe",
        describe_table,
        "Show partitions, lengths of keys and the number of entries.",
        "headrace table describe demo/prices",
    )
    describe.add_argument("table", metavar="SCOPE/TABLE")

    delete = add_verb(
        verbs,
        "delete",
        delete_table,
        "Delete a key-value table with all its entries.",
        "headrace table delete demo/prices --yes",
    )
    delete.add_argument("table", metavar="SCOPE/TABLE")
    delete.add_argument("--if-exists", action="store_true", help="succeed if there is none")
    add_confirmation(delete)


def _register_entries(verbs: Subparsers[argparse.ArgumentParser]) -> None:
    get = add_verb(
        verbs,
        "get",
        get_entries,
        "Print the values of keys, one a line; fail if one does not exist.",
        """
        headrace table get demo/prices apple---
        headrace table get demo/prices 6170706c652d2d2d --hex --json
        """,
    )
    get.add_argument("table", metavar="SCOPE/TABLE")
    get.add_argument("keys", metavar="KEY", nargs="+", help="the primary part, then the secondary one")
    _add_hex(get)

    put = add_verb(
        verbs,
        "put",
        put_entry,
        "Set the value of a key; print its new version.",
        """
        headrace table put demo/prices apple--- 12
        headrace table put demo/prices apple--- 13 --version 0:24
        """,
    )
    put.add_argument("table", metavar="SCOPE/TABLE")
    put.add_argument("key", metavar="KEY")
    put.add_argument("value", metavar="VALUE")
    conditions = put.add_mutually_exclusive_group()
    conditions.add_argument("--version", metavar="VERSION", help="only if the key has it")
    conditions.add_argument("--if-absent", action="store_true", help="only if the key does not exist")
    _add_hex(put)

    remove = add_verb(
        verbs,
        "remove",
        remove_key,
        "Remove a key; without a version it need not exist.",
        "headrace table remove demo/prices apple--- --version 0:24",
    )
    remove.add_argument("table", metavar="SCOPE/TABLE")
    remove.add_argument("key", metavar="KEY")
    remove.add_argument("--version", metavar="VERSION", help="only if the key has it")
    _add_hex(remove)

    scan = add_verb(
        verbs,
        "scan",
        scan_table,
        "Print keys, a tab and values in the order of keys, of the table or of a range.",
        """
        headrace table scan demo/prices
        headrace table scan demo/prices --prefix ap --json
        headrace table scan demo/orders --primary order-17 --keys
        """,
    )
    scan.add_argument("table", metavar="SCOPE/TABLE")
    scan.add_argument("--primary", metavar="KEY", help="only its family; the range is of secondary keys")
    scan.add_argument("--first", metavar="KEY", help="begin with it; its beginning is enough")
    scan.add_argument("--last", metavar="KEY", help="end with it; its beginning is enough")
    scan.add_argument("--prefix", metavar="KEY", help="what keys begin with, instead of both")
    scan.add_argument("--count", type=int, metavar="N", help="stop after so many")
    scan.add_argument("--keys", action="store_true", help="without values")
    _add_hex(scan)


def _add_hex(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("--hex", action="store_true", help="keys are given and printed in hexadecimal digits")


# ------------------------------------------------------------------------------------------ tables


def list_tables(chosen: argparse.Namespace) -> None:
    with connect(chosen) as client:
        tables = sorted(client.list_key_value_tables(chosen.scope))
    if chosen.json:
        print_json(tables)
    else:
        for table in tables:
            print_line(table)


def create_table(chosen: argparse.Namespace) -> None:
    from headrace.runtime.quantities import parse_bytes

    scope, table = scoped(chosen.table)
    with connect(chosen) as client:
        created = client.create_key_value_table(
            scope,
            table,
            primary_key_bytes=chosen.primary,
            secondary_key_bytes=chosen.secondary,
            partitions=chosen.partitions,
            rollover_bytes=0 if chosen.rollover is None else parse_bytes(chosen.rollover),
        )
    if not created and not chosen.if_absent:
        raise KeyValueTableExistsError(f"key-value table {scope}/{table} exists already")
    if chosen.json:
        print_json({"scope": scope, "table": table, "created": created})


def describe_table(chosen: argparse.Namespace) -> None:
    scope, table = scoped(chosen.table)
    with _opened(chosen) as opened:
        configuration, entries = opened.configuration, len(opened)
    numbers = {
        "partitions": configuration.partitions,
        "primary_key_bytes": configuration.primary_key_bytes,
        "secondary_key_bytes": configuration.secondary_key_bytes,
        "rollover_bytes": configuration.rollover_bytes,
        "entries": entries,
    }
    if chosen.json:
        print_json({"scope": scope, "table": table, **numbers})
    else:
        print_fields([("table", f"{scope}/{table}"), *((n.replace("_", " "), v) for n, v in numbers.items())])


def delete_table(chosen: argparse.Namespace) -> None:
    scope, table = scoped(chosen.table)
    confirm(chosen, f"Delete key-value table {scope}/{table}")
    with connect(chosen) as client:
        deleted = client.delete_key_value_table(scope, table)
    if not deleted and not chosen.if_exists:
        raise NoSuchKeyValueTableError(f"key-value table {scope}/{table} does not exist")
    if chosen.json:
        print_json({"scope": scope, "table": table, "deleted": deleted})


# ------------------------------------------------------------------------------------------ entries


@contextmanager
def _opened(chosen: argparse.Namespace) -> Iterator[BlockingKeyValueTable]:
    scope, table = scoped(chosen.table)
    with connect(chosen) as client, client.key_value_table(scope, table) as opened:
        yield opened


def _key(chosen: argparse.Namespace, table: BlockingKeyValueTable, word: str) -> Any:
    return key_of(bytes_of(word, is_hex=chosen.hex), table.configuration)


def _version(chosen: argparse.Namespace) -> TableVersion | None:
    from headrace.client.tables.versions import TableVersion

    return None if chosen.version is None else TableVersion.from_text(chosen.version)


def get_entries(chosen: argparse.Namespace) -> None:
    with _opened(chosen) as table:
        entries = table.get_all([_key(chosen, table, word) for word in chosen.keys])
    missing = [word for word, entry in zip(chosen.keys, entries, strict=True) if entry is None]
    if missing:
        text = f"key-value table {chosen.table} has no {', '.join(map(printable, missing))}"
        raise TableKeyMissingError(chosen.table, text)
    for entry in filter(None, entries):
        if chosen.json:
            _print_document(entry)
        else:
            sys.stdout.buffer.write(entry.value + b"\n")


def put_entry(chosen: argparse.Namespace) -> None:
    version, value = _version(chosen), os.fsencode(chosen.value)
    with _opened(chosen) as table:
        key = _key(chosen, table, chosen.key)
        new = table.insert(key, value) if chosen.if_absent else table.put(key, value, version)
    if chosen.json:
        print_json({"version": str(new)})
    else:
        print_line(str(new))


def remove_key(chosen: argparse.Namespace) -> None:
    version = _version(chosen)
    with _opened(chosen) as table:
        table.remove(_key(chosen, table, chosen.key), version)
    if chosen.json:
        print_json({"removed": True})


def scan_table(chosen: argparse.Namespace) -> None:
    if chosen.count is not None and chosen.count < 1:
        raise InvalidArgumentError(f"at least 1 entry has to be read, not {chosen.count}")
    bounds = {
        name: None if (word := getattr(chosen, name)) is None else bytes_of(word, is_hex=chosen.hex)
        for name in ("primary", "first", "last", "prefix")
    }
    with _opened(chosen) as table:
        found: Iterable[Any] = table.scan_keys(**bounds) if chosen.keys else table.scan(**bounds)
        for each in islice(found, chosen.count):
            if chosen.json:
                _print_document(each)
                continue
            key = printable(shown(whole_key(each.key), is_hex=chosen.hex)).encode()
            line = key if chosen.keys else b"%b\t%b" % (key, each[1])
            sys.stdout.buffer.write(line + b"\n")
        sys.stdout.buffer.flush()


def _print_document(each: Any) -> None:
    document = member("key", whole_key(each.key))
    if len(each) == 3:
        document |= member("value", each[1])
    print_json(document | {"version": str(each.version)})
