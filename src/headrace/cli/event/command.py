"""``headrace event``: write events from arguments or lines, read them to the terminal or a program."""

from __future__ import annotations

import click

from headrace.cli.shared_options import CONNECTION, STREAM, AlsoOption, argument, flag, option
from headrace.cli.verbs import Noun


def declare(name: str, summary: str) -> Noun:
    event = Noun(name, summary)
    _declare_write(event)
    _declare_read(event)
    return event


def _declare_write(event: Noun) -> None:
    event.verb(
        "write",
        *("headrace.cli.event.write", "write_events"),
        "Write each argument, or each line of a file or of standard input, as one event; return when all are "
        "durable.",
        """
        headrace event write demo/orders 'an event' 'another one'
        seq 1000 | headrace event write demo/orders --key counter
        headrace event write demo/orders --key-separator : --atomic < events.txt
        headrace event write demo/orders --file orders.jsonl --key-field customer
        headrace event read demo/orders --json | headrace event write demo/copy --input json
        headrace event write demo/orders --input csv --file orders.csv --key-field customer
        """,
        STREAM,
        argument("events", "EVENT", "instead of lines", nargs=-1),
        option("--file", metavar="PATH", default="-", help="lines of a file; -: of standard input (default)"),
        option("-k", "--key", metavar="KEY", help="routing key of all events: they keep their order"),
        option("--key-separator", metavar="TEXT", help="what stands before it is the routing key"),
        option(
            "--key-field",
            metavar="NAME",
            help="lines are JSON objects, this field has the routing key; or the column that has it",
        ),
        option(
            *("--input", "input_format"),
            type=click.Choice(["lines", "json", "csv", "parquet"]),
            default="lines",
            help="lines: all bytes but the newline; json: objects with event or event_base64, perhaps "
            "key, time and headers, as 'event read --json' prints them; csv, parquet: a row is an event, "
            "an object of JSON",
        ),
        flag("--atomic", help="all events or none, in one transaction"),
        option(
            "--on-error",
            type=click.Choice(["stop", "skip"]),
            default="stop",
            help="what follows from a line that is no event (default: stop)",
        ),
        *CONNECTION,
        apart=[("key", "key_separator", "key_field")],
    )


def _declare_read(event: Noun) -> None:
    event.verb(
        "read",
        *("headrace.cli.event.read", "read_events"),
        "Print the events of a stream, one a line, up to its present tail.",
        """
        headrace event read demo/orders
        headrace event read demo/orders --from tail --follow
        headrace event read demo/orders --since 1h
        headrace event read demo/orders --since 2h --until 1h
        headrace event read demo/orders --limit 10 --json
        headrace event read demo/orders --as parquet > orders.parquet
        headrace event read demo/orders --last 10 --format '%s %o %e\\n'
        headrace event read demo/orders --group etl --limit 100
        headrace event read demo/records --last 10 --format '%t %k %e\\n'
        """,
        STREAM,
        option("--from", "start", default="head", metavar="CUT", help="head, tail or a cut"),
        option(
            "--since",
            metavar="TIME",
            help="from where the stream was then, as 'stream cut --at' finds it: 1h, 2026-11-25T10:00",
        ),
        option(
            "--last",
            type=int,
            metavar="N",
            help="the last events, of segments that are written at the same time about as many of each; with "
            "--follow those that come as well; records are in the order of their times",
        ),
        option("--to", "end", default="tail", metavar="CUT", help="tail as it is now, or a cut"),
        option("--until", metavar="TIME", help="to where the stream was then: nothing that is younger"),
        flag("-f", "--follow", help="wait for more until the stream is sealed"),
        option(
            "--group",
            metavar="NAME",
            help="as one of the readers of this group, which begins at --from if it is not there yet: what "
            "one prints no other one does; goes on until --limit, Ctrl-C or the end of the group",
        ),
        AlsoOption(["-n", "--limit"], ["--count"], "stop after so many events", type=int, metavar="N"),
        option(
            *("--format", "template"),
            metavar="TEXT",
            help="how an event is printed: %e the event, %l its length, %s its segment, %S its id as one "
            "number, %o its offset; of a record %t its time, %k its key, %h its headers as name=value,...; "
            "%% a percent sign; \\n \\t \\r \\0 \\\\; nothing is added",
        ),
        option(
            "--on-error",
            type=click.Choice(["stop", "skip"]),
            default="stop",
            help="what follows from a plain event in a stream with records (default: stop)",
        ),
        option(
            *("--as", "table_format"),
            type=click.Choice(["csv", "parquet"]),
            help="one table on standard output, whose columns are the members of events of JSON",
        ),
        flag("--position", help="print on stderr the cut to continue from"),
        *CONNECTION,
        apart=[
            ("start", "since", "last"),
            ("end", "until", "follow", "group"),
            ("group", "last"),
            ("group", "position"),
            ("table_format", "follow"),
            ("table_format", "group"),
            ("table_format", "template"),
            ("table_format", "position"),
        ],
    )
