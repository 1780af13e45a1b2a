"""``headrace table``: key-value tables, their entries and their ranges."""

from __future__ import annotations

from headrace.cli.shared_options import CONNECTION, SCOPE, TABLE, YES, AlsoOption, argument, flag, option
from headrace.cli.verbs import Noun

_TABLES = "headrace.cli.table.verbs"
_ENTRIES = "headrace.cli.table.entries"

_KEY = argument("key", "KEY")
_HEX = flag("--hex", "is_hex", help="keys are given and printed in hexadecimal digits")
_VERSION = option("--version", metavar="VERSION", help="only if the key has it")


def declare(name: str, summary: str) -> Noun:
    table = Noun(name, summary)
    _declare_tables(table)
    _declare_changes(table)
    _declare_queries(table)
    return table


def _declare_tables(table: Noun) -> None:
    table.verb(
        *("list", _TABLES, "list_tables", "List the key-value tables of a scope."),
        "headrace table list demo",
        SCOPE,
        *CONNECTION,
    )
    table.verb(
        *("create", _TABLES, "create_table", "Create a key-value table."),
        """
        headrace table create demo/prices --primary 8
        headrace table create demo/orders --primary 8 --secondary 4 --partitions 16
        """,
        TABLE,
        option("--primary", type=int, required=True, metavar="BYTES", help="of every primary key"),
        option("--secondary", type=int, default=0, metavar="BYTES", help="of every secondary key"),
        option("--partitions", type=int, default=1, metavar="N", help="for ever (default: 1)"),
        option("--rollover", metavar="SIZE", help="of chunks in long-term storage, such as 64MiB"),
        flag("--if-absent", help="succeed if the table exists already"),
        *CONNECTION,
    )
    table.verb(
        *("describe", _TABLES, "describe_table"),
        "Show partitions, lengths of keys and the number of entries.",
        "headrace table describe demo/prices",
        TABLE,
        *CONNECTION,
    )
    table.verb(
        *("delete", _TABLES, "delete_table", "Delete a key-value table with all its entries."),
        "headrace table delete demo/prices --yes",
        TABLE,
        flag("--if-exists", help="succeed if there is none"),
        YES,
        *CONNECTION,
    )


def _declare_changes(table: Noun) -> None:
    table.verb(
        *("put", _ENTRIES, "put_entry", "Set the value of a key; print its new version."),
        """
        headrace table put demo/prices apple--- 12
        headrace table put demo/prices apple--- 13 --version 0:24
        """,
        TABLE,
        _KEY,
        argument("value", "VALUE"),
        _VERSION,
        flag("--if-absent", help="only if the key does not exist"),
        _HEX,
        *CONNECTION,
        apart=[("version", "if_absent")],
    )
    table.verb(
        *("remove", _ENTRIES, "remove_key", "Remove a key; without a version it need not exist."),
        "headrace table remove demo/prices apple--- --version 0:24",
        TABLE,
        _KEY,
        _VERSION,
        _HEX,
        *CONNECTION,
    )


def _declare_queries(table: Noun) -> None:
    table.verb(
        *("get", _ENTRIES, "get_entries"),
        "Print the values of keys, one a line; fail if one does not exist.",
        """
        headrace table get demo/prices apple---
        headrace table get demo/prices 6170706c652d2d2d --hex --json
        """,
        TABLE,
        argument("keys", "KEY", "the primary part, then the secondary one", nargs=-1, required=True),
        _HEX,
        *CONNECTION,
    )
    table.verb(
        *("scan", _ENTRIES, "scan_table"),
        "Print keys, a tab and values in the order of keys, of the table or of a range.",
        """
        headrace table scan demo/prices
        headrace table scan demo/prices --prefix ap --json
        headrace table scan demo/orders --primary order-17 --keys
        """,
        TABLE,
        option("--primary", metavar="KEY", help="only its family; the range is of secondary keys"),
        option("--first", metavar="KEY", help="begin with it; its beginning is enough"),
        option("--last", metavar="KEY", help="end with it; its beginning is enough"),
        option("--prefix", metavar="KEY", help="what keys begin with, instead of both"),
        AlsoOption(["-n", "--limit", "count"], ["--count"], "stop after so many", type=int, metavar="N"),
        flag("--keys", "only_keys", help="without values"),
        _HEX,
        *CONNECTION,
    )
