"""What ``headrace table`` does with tables as a whole."""

from __future__ import annotations

from headrace.cli.output import finished, print_fields, print_json, print_line
from headrace.cli.servers import Connection, confirm, scoped
from headrace.errors import InvalidArgumentError, KeyValueTableExistsError, NoSuchKeyValueTableError
from headrace.model.quantities import parse_bytes


def list_tables(*, scope: str, connection: Connection, as_json: bool) -> None:
    with connection.connect() as client:
        tables = sorted(client.list_key_value_tables(scope))
    if as_json:
        print_json(tables)
    else:
        for table in tables:
            print_line(table)


def create_table(
    *,
    table: str,
    primary: int,
    secondary: int,
    partitions: int,
    rollover: str | None,
    if_absent: bool,
    connection: Connection,
    as_json: bool,
) -> None:
    scope, table = scoped(table)
    rollover_bytes = 0 if rollover is None else parse_bytes(rollover)
    if rollover is not None and not rollover_bytes:
        raise InvalidArgumentError(
            "--rollover 0 leaves nothing: leaving the option out is no limit of its own"
        )
    with connection.connect() as client:
        created = client.create_key_value_table(
            scope,
            table,
            primary_key_bytes=primary,
            secondary_key_bytes=secondary,
            partitions=partitions,
            rollover_bytes=rollover_bytes,
        )
    if not created and not if_absent:
        raise KeyValueTableExistsError(f"key-value table {scope}/{table} exists already")
    if as_json:
        print_json({"scope": scope, "table": table, "created": created})
    else:
        finished(f"key-value table {scope}/{table} {'created' if created else 'exists already'}")


def describe_table(*, table: str, connection: Connection, as_json: bool) -> None:
    scope, table = scoped(table)
    with connection.connect() as client, client.key_value_table(scope, table) as opened:
        configuration, entries = opened.configuration, len(opened)
    numbers = {
        "partitions": configuration.partitions,
        "primary_key_bytes": configuration.primary_key_bytes,
        "secondary_key_bytes": configuration.secondary_key_bytes,
        "rollover_bytes": configuration.rollover_bytes,
        "entries": entries,
    }
    if as_json:
        print_json({"scope": scope, "table": table, **numbers})
    else:
        print_fields([("table", f"{scope}/{table}"), *((n.replace("_", " "), v) for n, v in numbers.items())])


def delete_table(*, table: str, if_exists: bool, yes: bool, connection: Connection, as_json: bool) -> None:
    scope, table = scoped(table)
    confirm(f"Delete key-value table {scope}/{table}", yes=yes)
    with connection.connect() as client:
        deleted = client.delete_key_value_table(scope, table)
    if not deleted and not if_exists:
        raise NoSuchKeyValueTableError(f"key-value table {scope}/{table} does not exist")
    if as_json:
        print_json({"scope": scope, "table": table, "deleted": deleted})
