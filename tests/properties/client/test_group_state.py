"""Any schedule of updates makes of the state of a reader group what a second, naive model makes of it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.client.groups.checkpoint_state import CheckpointState
from headrace.client.groups.group_codec import GroupCodec
from headrace.client.groups.group_state import GroupState, apply
from headrace.client.groups.updates import (
    AcquireSegment,
    AddReader,
    CheckpointPublished,
    CheckpointReader,
    ClearCheckpointsBefore,
    CreateCheckpoint,
    ReleaseSegment,
    RemoveOutstandingCheckpoints,
    RemoveReader,
    SegmentCompleted,
    StateInit,
    UpdateDistanceToTail,
    UpdatingConfig,
)
from headrace.client.revisions.entries import encode_state, encode_updates
from headrace.client.revisions.replay import Replay
from headrace.client.segment_address import SegmentAddress
from headrace.errors import DataCorruptionError, PreconditionError
from headrace.model.key_space import KeyRange
from headrace.model.reader_group import ReaderGroupConfig
from headrace.model.stream_cut import UNBOUNDED
from tests.effort import examples

SEGMENTS = [SegmentAddress("s", "t", number) for number in range(5)]
CONFIG = ReaderGroupConfig(starts={"s/t": UNBOUNDED}, ends={"s/t": UNBOUNDED})
INIT = StateInit(CONFIG, {SEGMENTS[0]: 0, SEGMENTS[1]: 7}, {SEGMENTS[4]: 100})
RANGE = KeyRange(0.0, 0.5)


class NaiveGroup:
    """The effects once more, as they are written down, on plain dictionaries that change."""

    def __init__(self, init):
        self.config, self.updating = init.config, init.is_updating
        self.free, self.read = dict(init.starts), dict(init.starts)
        self.ends = dict(init.ends)
        self.ranges = {each: init.ranges[each] for each in init.starts if each in init.ranges}
        self.owned, self.far, self.later = {}, {}, {}
        self.names, self.waiting, self.cuts, self.last, self.told = [], {}, {}, {}, False

    def pass_checkpoint(self, name, reader, positions):
        if name not in self.waiting:
            return
        self.waiting[name].remove(reader)
        self.cuts[name].update(positions)
        if not self.waiting[name]:
            del self.waiting[name]
            if "_SILENT_" not in name:
                self.last, self.told = dict(self.cuts[name]), False

    def do(self, update):
        match update:
            case StateInit():
                self.__init__(update)
            case AddReader(reader):
                assert reader not in self.owned
                self.owned[reader] = {}
                self.far.setdefault(reader, 2**63 - 1)
            case RemoveReader(reader, offsets):
                final = self.owned.pop(reader, {})
                for segment in final:
                    if segment in offsets:
                        final[segment] = offsets[segment]
                self.free.update(final)
                self.far.pop(reader, None)
                for name in list(self.waiting):
                    if reader in self.waiting[name]:
                        self.pass_checkpoint(name, reader, final)
            case ReleaseSegment(reader, segment, offset):
                del self.owned[reader][segment]
                self.free[segment] = offset
                if segment in self.read:
                    self.read[segment] = offset
            case AcquireSegment(reader, segment):
                self.owned[reader][segment] = self.free.pop(segment)
            case UpdateDistanceToTail(reader, distance, last_read, ranges):
                self.far[reader] = max(30000, distance)
                for segment in set(last_read) & set(self.read):
                    self.read[segment] = last_read[segment]
                    if segment in ranges:
                        self.ranges[segment] = ranges[segment]
            case SegmentCompleted(reader, segment, successors, ranges):
                del self.owned[reader][segment]
                self.read.pop(segment, None)
                for each, before in successors.items():
                    self.later.setdefault(each, set(before))
                for each in list(self.later):
                    self.later[each].discard(segment.segment_id)
                    if not self.later[each]:
                        del self.later[each]
                        self.free[each] = 0
                        self.read.setdefault(each, 0)
                self.ranges.update(ranges)
                self.ranges.pop(segment, None)
            case CheckpointReader(name, reader, positions):
                mine = self.owned[reader]
                self.pass_checkpoint(name, reader, positions)
                if "_SILENT_" not in name:
                    mine.update({each: at for each, at in positions.items() if each in mine})
            case CreateCheckpoint(name):
                if name not in self.cuts:
                    self.names.append(name)
                    self.cuts[name] = dict(self.free)
                    if self.owned:
                        self.waiting[name] = set(self.owned)
            case ClearCheckpointsBefore(name):
                while name in self.cuts and self.names[0] != name:
                    dropped = self.names.pop(0)
                    self.waiting.pop(dropped, None)
                    self.cuts.pop(dropped, None)
            case CheckpointPublished(told):
                self.told = told
            case UpdatingConfig(updating):
                self.updating = updating
            case RemoveOutstandingCheckpoints():
                for name in [each for each in self.waiting if "_SILENT_" not in each]:
                    del self.waiting[name], self.cuts[name]

    def as_state(self):
        waiting = {name: frozenset(readers) for name, readers in self.waiting.items()}
        return GroupState(
            self.config,
            CheckpointState(tuple(self.names), waiting, self.cuts, self.last, self.told),
            self.far,
            {each: frozenset(before) for each, before in self.later.items()},
            self.owned,
            self.free,
            self.read,
            self.ends,
            self.ranges,
            self.updating,
        )


readers = st.sampled_from(["a", "b.py", "c"])
segments = st.sampled_from(SEGMENTS)
names = st.sampled_from(["one", "two", "x_SILENT_"])
offsets = st.dictionaries(segments, st.integers(-1, 1 << 40), max_size=3)
ranges = st.dictionaries(segments, st.just(RANGE), max_size=3)
successors = st.dictionaries(
    segments, st.lists(st.integers(0, 4), min_size=1, max_size=2, unique=True).map(tuple), max_size=2
)
updates = st.one_of(
    st.builds(AddReader, readers),
    st.builds(AddReader, readers),
    st.builds(RemoveReader, readers, offsets),
    st.builds(ReleaseSegment, readers, segments, st.integers(0, 99)),
    st.builds(AcquireSegment, readers, segments),
    st.builds(AcquireSegment, readers, segments),
    st.builds(UpdateDistanceToTail, readers, st.integers(0, 1 << 50), offsets, ranges),
    st.builds(SegmentCompleted, readers, segments, successors, ranges),
    st.builds(CheckpointReader, names, readers, offsets),
    st.builds(CreateCheckpoint, names),
    st.builds(ClearCheckpointsBefore, names),
    st.builds(CheckpointPublished, st.booleans()),
    st.builds(UpdatingConfig, st.booleans()),
    st.just(RemoveOutstandingCheckpoints()),
    st.builds(StateInit, st.just(CONFIG), offsets, offsets, ranges, st.booleans()),
)


@settings(max_examples=examples(200))
@given(st.lists(updates, max_size=40), st.sets(st.integers(0, 40)))
def test_updates_do_what_the_naive_model_does_whatever_is_compacted(schedule, compacted):
    codec = GroupCodec()
    state, naive = GroupState.begin(INIT), NaiveGroup(INIT)
    log = [encode_state(codec.encode(state))]
    for number, update in enumerate(schedule):
        if number in compacted:
            log = [encode_state(codec.encode(state))]
        try:
            following = apply(state, update)
        except PreconditionError:
            continue  # it would poison the group: whoever made it may not write it
        naive.do(update)
        state = following
        log.append(encode_updates([codec.encode(update)]))
        assert state == naive.as_state()
        assert list(state.unassigned) == list(naive.free), "segments are acquired in the same order"
        assert apply(GroupState.begin(INIT), codec.decode_update(codec.encode(state))) == state
    replay = Replay(codec.decode_state, codec.decode_update, apply)
    for end, entry in enumerate(log, 1):
        replay.read(entry, end)
    assert replay.state == state


@settings(max_examples=examples(100))
@given(st.lists(updates, max_size=25))
def test_what_does_not_fit_is_told_with_its_place_by_whoever_reads_it(schedule):
    codec, naive = GroupCodec(), NaiveGroup(INIT)
    replay = Replay(codec.decode_state, codec.decode_update, apply)
    replay.read(encode_state(codec.encode(GroupState.begin(INIT))), 100)
    for end, update in enumerate(schedule, 101):
        before, entry, told = replay.state, encode_updates([codec.encode(update)]), ""
        try:
            replay.read(entry, end)
        except DataCorruptionError as error:
            told = str(error)
        if not told:
            naive.do(update)
            continue
        assert f"ends at offset {end} cannot" in told
        assert entry[:32].hex() in told
        assert replay.state == before
        with pytest.raises((KeyError, AssertionError)):
            naive.do(update)
        return
