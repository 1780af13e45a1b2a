"""A query as a subscriber of its streams: a reader group without readers, which retention waits for."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Mapping
from time import monotonic  # noqa: TID251 - no loop runs here that has a clock
from typing import Final

from headrace.client.blocking import connect
from headrace.client.blocking.loop_thread import LoopThread
from headrace.client.config import ClientConfig, ControllerAddress
from headrace.client.control.controller import Controller
from headrace.client.control.reader_groups import ReaderGroups
from headrace.errors import HeadraceError, NoSuchReaderGroupError
from headrace.model.reader_group import Consumption, ReaderGroupConfig
from headrace.model.stream_cut import StreamCut
from headrace.runtime.entropy import SystemEntropy
from headrace.spark.client_cache import client_configuration
from headrace.spark.connection_options import ConnectionOptions
from headrace.spark.stream_choice import split_name

_log: Final = logging.getLogger(__name__)

_SHOWN_S: Final = 10

Positions = Mapping[str, Mapping[int, int]]
"""Offsets by segment of each stream, by its full name."""


class GroupCalls:
    """The calls about reader groups, for threads."""

    def __init__(self, uri: str, config: ClientConfig) -> None:
        self._client = connect(uri, config)
        self._thread = LoopThread(config.loop)
        address = ControllerAddress.parse(uri)
        self._groups = self._thread.call(lambda: ReaderGroups(Controller(address, config, SystemEntropy())))

    def create(self, scope: str, group: str, config: ReaderGroupConfig) -> ReaderGroupConfig:
        """See :meth:`ReaderGroups.create`."""
        return self._thread.run(self._groups.create(scope, group, config))

    def update(self, scope: str, group: str, config: ReaderGroupConfig) -> int:
        """See :meth:`ReaderGroups.update`."""
        return self._thread.run(self._groups.update(scope, group, config))

    def release(self, subscriber: str, config: ReaderGroupConfig, cut: StreamCut) -> None:
        """See :meth:`ReaderGroups.release`."""
        self._thread.run(self._groups.release(subscriber, config, cut))

    def show(self, scope: str, group: str, positions: Mapping[str, StreamCut]) -> None:
        """Let the state of a group, which tells what it has not read, begin at positions."""
        with self._client.reader_group(scope=scope, group=group) as kept:
            kept.reset({**kept.config.starts, **positions})

    def subscribers(self, scope: str, stream: str) -> list[str]:
        """See :meth:`ReaderGroups.subscribers`."""
        return self._thread.run(self._groups.subscribers(scope, stream))


def connect_groups(connection: ConnectionOptions) -> GroupCalls:
    """Return the calls about reader groups, with a connection of their own."""
    return GroupCalls(connection.controller, client_configuration(connection))


class Subscription:
    """Holds what a query has not committed. A refusal is logged: the query itself goes on."""

    def __init__(
        self, calls: GroupCalls, scope: str, group: str, clock: Callable[[], float] = monotonic
    ) -> None:
        self._calls = calls
        self._scope = scope
        self._group = group
        self._config: ReaderGroupConfig | None = None
        self._clock = clock
        self._shown_s: float | None = None

    def hold(self, positions: Positions) -> None:
        """Let streams retain what lies behind positions, until more of it is released."""
        try:
            config = self._subscribe(positions)
            for name, offsets in positions.items():
                self._calls.release(f"{self._scope}/{self._group}", config, _cut(name, offsets))
            self._show(positions)
        except HeadraceError as error:
            _log.warning("consumer %s/%s stays where it was: %s", self._scope, self._group, error)
            if isinstance(error, NoSuchReaderGroupError):
                self._config = None  # somebody has deleted it: the next batch makes it again

    def _show(self, positions: Positions) -> None:
        """Show where the query is to those who list groups, now and then: it takes a dozen calls."""
        now_s = self._clock()
        if self._shown_s is None or now_s - self._shown_s >= _SHOWN_S:
            self._shown_s = now_s
            cuts = {name: _cut(name, offsets) for name, offsets in positions.items()}
            self._calls.show(self._scope, self._group, cuts)
            self._config = None  # the group is of another generation then

    def _subscribe(self, positions: Positions) -> ReaderGroupConfig:
        if self._config is not None and positions.keys() <= self._config.starts.keys():
            return self._config
        starts = {name: _cut(name, offsets) for name, offsets in positions.items()}
        wanted = ReaderGroupConfig(starts=starts, consumption=Consumption.HELD_UNTIL_TOLD)
        config = self._calls.create(self._scope, self._group, wanted)
        missing = {name: cut for name, cut in starts.items() if name not in config.starts}
        if missing or config.consumption is not Consumption.HELD_UNTIL_TOLD:
            config = dataclasses.replace(
                config, starts={**config.starts, **missing}, consumption=Consumption.HELD_UNTIL_TOLD
            )
            generation = self._calls.update(self._scope, self._group, config)
            config = dataclasses.replace(config, generation=generation)
        self._config = config
        return config


def _cut(name: str, offsets: Mapping[int, int]) -> StreamCut:
    return StreamCut.from_offsets(*split_name(name), offsets)
