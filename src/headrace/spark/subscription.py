"""A query as a subscriber of its streams: a reader group without readers, which retention waits for."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping
from typing import Final

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

Positions = Mapping[str, Mapping[int, int]]
"""Offsets by segment of each stream, by its full name."""


class GroupCalls:
    """The calls about reader groups, for threads."""

    def __init__(self, uri: str, config: ClientConfig) -> None:
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

    def subscribers(self, scope: str, stream: str) -> list[str]:
        """See :meth:`ReaderGroups.subscribers`."""
        return self._thread.run(self._groups.subscribers(scope, stream))


def connect_groups(connection: ConnectionOptions) -> GroupCalls:
    """Return the calls about reader groups, with a connection of their own."""
    return GroupCalls(connection.controller, client_configuration(connection))


class Subscription:
    """Holds what a query has not committed. A refusal is logged: the query itself goes on."""

    def __init__(self, calls: GroupCalls, scope: str, group: str) -> None:
        self._calls = calls
        self._scope = scope
        self._group = group
        self._config: ReaderGroupConfig | None = None

    def hold(self, positions: Positions) -> None:
        """Let streams retain what lies behind positions, until more of it is released."""
        try:
            config = self._subscribe(positions)
            for name, offsets in positions.items():
                self._calls.release(f"{self._scope}/{self._group}", config, _cut(name, offsets))
        except HeadraceError as error:
            _log.warning("consumer %s/%s stays where it was: %s", self._scope, self._group, error)
            if isinstance(error, NoSuchReaderGroupError):
                self._config = None  # somebody has deleted it: the next batch makes it again

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
