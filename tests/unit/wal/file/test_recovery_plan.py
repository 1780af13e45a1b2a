import pytest

from headrace.errors import DataCorruptionError
from headrace.wal.config import BLOCK_BYTES
from headrace.wal.file.owner_format import NewestFile
from headrace.wal.file.recovery_plan import WINDOW_BYTES, FoundFile, find_records, recover_log
from headrace.wal.file.segment_format import DATA_OFFSET, format_name, short_log_id
from headrace.wal.record_format import RECORD_HEADER_BYTES, padded_bytes
from tests.effort import stride
from tests.unit.wal.file.log_images import (
    LOG_ID,
    Image,
    Reader,
    content_of,
    encode_record,
    recover,
    recover_files,
)


def expect(*sequences, epoch=1):
    return {sequence: content_of(sequence, epoch) for sequence in sequences}


class TestOneOwner:
    def test_no_files_are_an_empty_log(self):
        log, records = recover()
        assert records == {}
        assert (log.next_sequence, log.next_number, log.truncation_sequence) == (1, 1, 1)

    def test_an_unused_file_is_an_empty_log(self):
        log, records = recover(Image(1, 1, 1))
        assert records == {}
        assert log.next_sequence == 1
        assert [file.number for file in log.dead] == [1]

    def test_records_are_found_over_several_files(self):
        log, records = recover(
            Image(1, 1, 1).add_many(1, 2, 3), Image(2, 1, 1).add_many(4, 5), Image(3, 1, 1)
        )
        assert records == expect(1, 2, 3, 4, 5)
        assert log.next_sequence == 6
        assert log.next_number == 4
        assert [file.number for file in log.dead] == [3]

    def test_only_records_nobody_vouches_for_have_to_be_proven(self):
        def unproven(log):
            return [(records.file.number, records.start, records.end) for records in log.unproven]

        log, _ = recover(Image(1, 1, 1).add_many(1, 2, 3), Image(2, 1, 1).add_many(4, 5))
        assert unproven(log) == [(2, DATA_OFFSET + 4096, DATA_OFFSET + 8192)]
        log, _ = recover(Image(1, 1, 1).add_many(1, 2, 3), Image(2, 1, 1).add(4, durable=2))
        assert unproven(log) == [
            (1, DATA_OFFSET + 8192, DATA_OFFSET + 12288),
            (2, DATA_OFFSET, DATA_OFFSET + 4096),
        ]
        log, _ = recover(Image(1, 1, 1).add_many(1, 2, 3).close(4))
        assert log.unproven == []

    def test_the_order_of_the_listing_does_not_matter(self):
        images = [Image(1, 1, 1).add_many(1, 2), Image(2, 1, 1).add(3), Image(3, 2, 4).add(4)]
        assert recover(*images[::-1])[1] == recover(*images)[1]

    def test_frames_left_by_an_earlier_use_of_the_file_are_not_seen(self):
        old = Image(1, 1, 1).add_many(1, 2, 3, 4)
        recycled = Image(9, 1, 1).add(20)
        recycled.data[recycled.position :] = old.data[recycled.position :]
        log, records = recover(recycled.mark(1, 20))
        assert list(records) == [20]
        assert log.next_sequence == 21

    @pytest.mark.parametrize(
        ("number", "epoch", "log_id"), [(1, 2, LOG_ID), (2, 1, LOG_ID), (2, 2, LOG_ID[::-1])]
    )
    def test_marks_left_by_an_earlier_use_of_the_file_do_not_count(self, number, epoch, log_id):
        """They neither truncate the log nor make a torn tail corruption nor tell that the file is in use."""
        former = Image(number, epoch, 1, log_id=log_id).mark(1, 3, durable=9)
        recycled = Image(2, 2, 1).add_many(1, 2).add(3, durable=2).damage(3)
        recycled.data[BLOCK_BYTES:DATA_OFFSET] = former.data[BLOCK_BYTES:DATA_OFFSET]
        log, records = recover(recycled)
        assert records == expect(1, 2, epoch=2)
        assert log.truncation_sequence == 1
        empty = Image(2, 2, 1)
        empty.data[BLOCK_BYTES:DATA_OFFSET] = former.data[BLOCK_BYTES:DATA_OFFSET]
        named = [NewestFile(LOG_ID, 2, 2), NewestFile(LOG_ID, 2, 1)]
        with pytest.raises(DataCorruptionError, match="is missing"):
            recover_log([_file(empty)], LOG_ID, Reader({empty.name: empty.data}), "", named)

    def test_a_record_of_another_log_is_not_seen(self):
        image = Image(1, 1, 1).add(1)
        image.log_id = bytes(16)
        image.add(2)
        assert list(recover(image)[1]) == [1]

    def test_content_that_looks_like_a_record_is_not_taken_for_one(self):
        fields = {
            "kind": 1,
            "epoch": 1,
            "file_number": 1,
            "file_first_sequence": 1,
            "log": short_log_id(LOG_ID),
        }
        trap = encode_record(b"trap", sequence=2, durable_sequence=1, **fields)
        # The trap lies exactly on a block boundary within the content of the first record.
        content = bytes(BLOCK_BYTES - RECORD_HEADER_BYTES) + trap
        image = Image(1, 1, 1).add(1, content=content).add(2)
        assert recover(image)[1] == {1: content, 2: content_of(2)}


class TestTornTail:
    @pytest.mark.slow
    def test_a_last_record_cut_at_any_byte_ends_the_log(self):
        image = Image(1, 1, 1).add_many(1, 2).add(3, content=bytes(range(256)) * 20)
        start, end = image.offsets[3], image.offsets[3] + RECORD_HEADER_BYTES + 5120
        for cut in range(start, end, 1):
            torn = image.data[:cut]
            log, records = recover_files({image.name: torn})
            assert list(records) == [1, 2]
            assert log.next_sequence == 3
        assert list(recover_files({image.name: image.data[:end]})[1]) == [1, 2, 3]

    @pytest.mark.slow
    @pytest.mark.parametrize("filler", [0x00, 0xFF, 0x5A])
    def test_a_last_record_whose_rest_is_something_else_ends_the_log(self, filler):
        image = Image(1, 1, 1).add_many(1, 2).add(3, content=bytes(range(1, 256)) * 20)
        start, end = image.offsets[3], image.offsets[3] + RECORD_HEADER_BYTES + 255 * 20
        for cut in range(start, end, stride(1)):
            torn = bytearray(image.data)
            torn[cut:] = bytes([filler]) * (len(torn) - cut)
            if torn[start:end] != image.data[start:end]:
                assert list(recover_files({image.name: torn})[1]) == [1, 2]

    def test_any_of_its_sectors_may_be_missing(self):
        image = Image(1, 1, 1).add_many(1, 2).add(3, content=bytes(range(1, 256)) * 20)
        start = image.offsets[3]
        for sector in range(start, start + padded_bytes(5100), 512):
            torn = bytearray(image.data)
            torn[sector : sector + 512] = bytes(512)
            if any(image.data[sector : sector + 512]):
                assert list(recover_files({image.name: torn})[1]) == [1, 2]

    def test_frames_behind_a_torn_one_that_was_in_flight_with_them_go_too(self):
        image = Image(1, 1, 1).add_many(1, 2).add(3, durable=2).add(4, durable=2).add(5, durable=2).damage(3)
        log, records = recover(image)
        assert list(records) == [1, 2]
        assert log.next_sequence == 3

    def test_that_holds_across_files(self):
        first = Image(1, 1, 1).add_many(1, 2).add(3, durable=2).damage(3)
        second = Image(2, 1, 1).add(4, durable=2)
        log, records = recover(first, second)
        assert list(records) == [1, 2]
        assert [file.number for file in log.dead] == [2]

    def test_and_for_the_first_record_of_a_file(self):
        first = Image(1, 1, 1).add_many(1, 2)
        second = Image(2, 1, 1).add(3, durable=2).add(4, durable=2).damage(3)
        assert list(recover(first, second)[1]) == [1, 2]

    def test_the_next_owner_goes_on_and_the_torn_frames_never_return(self):
        torn = Image(1, 1, 1).add_many(1, 2).add(3, durable=2).add(4, durable=2)
        whole_later = torn  # the write of 3 was only late
        log, records = recover(whole_later, Image(2, 2, 3).add_many(3, 4, 5))
        assert records == expect(1, 2) | expect(3, 4, 5, epoch=2)
        assert log.next_sequence == 6


class TestCorruption:
    def find(self, *images):
        with pytest.raises(DataCorruptionError) as caught:
            recover(*images)
        assert caught.value.path is not None
        assert caught.value.offset is not None
        return caught.value.path.rpartition("/")[2], caught.value.offset

    def test_a_damaged_record_that_a_later_one_vouches_for_is_named(self):
        image = Image(1, 1, 1).add_many(1, 2, 3, 4).damage(2)
        assert self.find(image) == (image.name, image.offsets[2])

    def test_the_witness_may_be_two_records_later(self):
        image = Image(1, 1, 1).add(1).add(2, durable=1).add(3, durable=1).add(4, durable=2).damage(2)
        assert self.find(image) == (image.name, image.offsets[2])

    def test_the_witness_may_be_in_a_later_file(self):
        first, second = Image(1, 1, 1).add_many(1, 2), Image(2, 1, 1).add(3)
        assert self.find(first.damage(2), second) == (first.name, first.offsets[2])

    def test_a_witness_behind_megabytes_of_damage_is_found(self):
        image = Image(1, 1, 1, size=12 << 20).add(1)
        image.position = 11 << 20
        image.add(9, durable=8)
        assert self.find(image) == (image.name, image.offsets[1] + padded_bytes(len(content_of(1))))

    def test_a_witness_that_crosses_a_window_of_reading_is_found(self):
        image = Image(1, 1, 1, size=6 << 20).add(1)
        image.position = DATA_OFFSET + padded_bytes(0) + (4 << 20) - BLOCK_BYTES
        image.add(9, durable=8, content=bytes(9000))
        self.find(image)

    def test_a_close_mark_vouches_for_everything(self):
        image = Image(1, 1, 1).add_many(1, 2, 3).close(4).damage(3)
        assert self.find(image) == (image.name, image.offsets[3])

    def test_nothing_is_looked_for_behind_a_close_mark_at_the_end(self):
        image = Image(1, 1, 1, size=32 << 20).add_many(1, 2, 3).close(4)
        read, amounts = Reader({image.name: image.data}), []

        def counted(name, offset, length):
            data = read(name, offset, length)
            amounts.append(len(data))
            return data

        log = recover_log([FoundFile(image.name, 1, 1)], LOG_ID, counted)
        assert log.next_sequence == 4
        assert log.unproven == []
        assert sum(amounts) < 3 * WINDOW_BYTES

    def test_an_older_owner_s_records_are_all_vouched_for(self):
        first, second = Image(1, 1, 1).add_many(1, 2), Image(2, 2, 3)
        assert self.find(first.damage(2), second) == (first.name, first.offsets[2])

    def test_a_missing_file_in_the_middle_is_noticed(self):
        self.find(Image(1, 1, 1).add_many(1, 2), Image(3, 1, 1).add_many(5, 6))

    def test_a_missing_file_of_an_older_owner_is_noticed(self):
        self.find(Image(1, 1, 1).add_many(1, 2), Image(3, 2, 5).add(5))

    def test_a_missing_first_file_is_noticed(self):
        self.find(Image(2, 1, 1).add_many(3, 4))
        self.find(Image(2, 2, 3).add(3))
        self.find(Image(2, 2, 3))

    def test_a_damaged_head_is_noticed(self):
        image = Image(1, 1, 1).add(1)
        image.data[20] ^= 4
        assert self.find(image) == (image.name, 0)

    def test_a_head_under_another_name_is_noticed(self):
        image = Image(1, 1, 1).add(1)
        with pytest.raises(DataCorruptionError):
            recover_files({format_name(2, 1): image.data})

    def test_a_head_of_another_log_is_noticed(self):
        self.find(Image(1, 1, 1, log_id=bytes(16)))

    def test_epochs_that_go_backwards_are_noticed(self):
        self.find(Image(1, 1, 9).add(9), Image(2, 2, 5).add(5))

    def test_epochs_that_go_backwards_are_noticed_although_what_the_older_one_wrote_would_be_stale(self):
        older, newer = Image(1, 1, 9).add(9), Image(2, 2, 5, truncation=5).add(5)
        with pytest.raises(DataCorruptionError, match="older container epoch"):
            recover(older, newer)

    def test_a_log_shorter_than_its_truncation_point_is_noticed(self):
        self.find(Image(1, 1, 1).add_many(1, 2).mark(1, 9))


class TestTheNamedFiles:
    """The owner record names the newest file and the one before it."""

    def recover(self, *images):
        named = [NewestFile(LOG_ID, 1, 2), NewestFile(LOG_ID, 1, 1)]
        files = [_file(image) for image in images]
        return recover_log(files, LOG_ID, Reader({image.name: image.data for image in images}), "", named)

    def test_the_file_before_a_newest_one_that_holds_nothing_is_missed(self):
        assert self.recover(Image(1, 1, 1).add_many(1, 2), Image(2, 1, 1)).next_sequence == 3
        with pytest.raises(DataCorruptionError, match=format_name(1, 1)):
            self.recover(Image(2, 1, 1))

    def test_it_may_go_once_the_newest_one_is_marked_or_holds_a_record(self):
        assert self.recover(Image(2, 1, 1).mark(1, 3, durable=2)).next_sequence == 3
        assert self.recover(Image(2, 1, 1, truncation=3).add(3)).next_sequence == 4

    def test_it_is_missed_although_what_the_newest_one_holds_was_in_flight_with_its_records(self):
        assert (
            self.recover(Image(1, 1, 1).add_many(1, 2), Image(2, 1, 1).add(3, durable=0)).next_sequence == 4
        )
        for mark in (0, 1, 2):
            newest = Image(2, 1, 1).add(3, durable=0)
            with pytest.raises(DataCorruptionError, match=format_name(1, 1)):
                self.recover(newest.mark(1, mark) if mark else newest)

    def test_or_once_there_is_a_newer_one(self):
        assert self.recover(Image(2, 1, 1), Image(3, 2, 1)).next_sequence == 1


class TestOlderOwners:
    def test_what_they_wrote_behind_the_start_of_the_next_owner_is_stale(self):
        log, records = recover(Image(1, 1, 1).add_many(1, 2, 3, 4), Image(2, 2, 3).add(3))
        assert records == expect(1, 2) | expect(3, epoch=2)
        assert log.next_sequence == 4

    def test_their_late_files_are_dead(self):
        late = Image(2, 1, 1).add_many(3, 4)
        log, records = recover(Image(1, 1, 1).add_many(1, 2), late, Image(2, 2, 3).add(3))
        assert records == expect(1, 2) | expect(3, epoch=2)
        assert [file.name for file in log.dead] == [late.name]

    def test_their_late_files_are_dead_after_everything_else_was_truncated(self):
        late = Image(2, 1, 1).add_many(4, 5)
        log, records = recover(late, Image(2, 2, 3, truncation=3))
        assert records == {}
        assert log.next_sequence == 3
        assert [file.name for file in log.dead] == [late.name, format_name(2, 2)]

    def test_an_owner_that_wrote_nothing_leaves_no_gap(self):
        _, records = recover(Image(1, 1, 1).add_many(1, 2), Image(2, 2, 3), Image(3, 3, 3).add(3))
        assert records == expect(1, 2) | expect(3, epoch=3)

    def test_what_they_wrote_too_late_does_not_pass_for_what_the_next_owner_wrote_and_is_damaged(self):
        first, third = Image(1, 1, 1).add_many(1, 2, 3), Image(3, 3, 4).add(4)
        with pytest.raises(DataCorruptionError, match="record 3 is damaged"):
            recover(first, Image(2, 2, 3).add(3).damage(3), third)
        _, records = recover(first, Image(2, 2, 3).add(3).damage(3), third.mark(1, truncation=4))
        assert records == expect(4, epoch=3), "unless nobody needs it"

    def test_an_owner_s_close_mark_is_no_record(self):
        log, records = recover(Image(1, 1, 1).add_many(1, 2).close(3), Image(2, 2, 3).add(3).close(4))
        assert records == expect(1, 2) | expect(3, epoch=2)
        assert log.next_sequence == 4

    def test_many_owners_of_one_record_each(self):
        images = [Image(number, number, number).add(number) for number in range(1, 60)]
        log, records = recover(*images)
        assert list(records) == list(range(1, 60))
        assert log.next_number == 60


class TestTruncation:
    def test_the_highest_point_counts_wherever_it_is(self):
        images = [
            Image(1, 1, 1).add_many(1, 2).mark(1, 2),
            Image(2, 1, 1).add_many(3, 4).mark(1, 4).mark(2, 3),
        ]
        log, records = recover(*images)
        assert list(records) == [4]
        assert log.truncation_sequence == 4
        assert [file.number for file in log.dead] == [1]

    def test_a_point_carried_in_the_head_counts(self):
        assert list(recover(Image(1, 1, 1).add_many(1, 2), Image(2, 2, 3, truncation=2).add(3))[1]) == [2, 3]

    def test_a_torn_mark_leaves_the_other_one(self):
        image = Image(1, 1, 1).add_many(1, 2, 3, 4).mark(1, 2).mark(2, 4)
        image.data[BLOCK_BYTES + 30] ^= 1
        image2 = Image(1, 1, 1).add_many(1, 2, 3, 4).mark(1, 2).mark(2, 4)
        image2.data[2 * BLOCK_BYTES + 30] ^= 1
        assert {recover(image)[0].truncation_sequence, recover(image2)[0].truncation_sequence} == {2, 4}

    def test_files_before_the_point_are_not_looked_into(self):
        damaged = Image(1, 1, 1).add_many(1, 2).damage(1)
        log, records = recover(damaged, Image(2, 1, 1).add_many(3, 4).mark(1, 3))
        assert list(records) == [3, 4]
        assert [file.number for file in log.dead] == [1]

    def test_everything_may_be_truncated(self):
        log, records = recover(Image(1, 1, 1).add_many(1, 2).mark(1, 3))
        assert records == {}
        assert log.next_sequence == 3

    def test_a_torn_first_record_of_the_oldest_file_is_a_torn_tail(self):
        image = Image(2, 1, 1).add(3, durable=2).add(4, durable=2).damage(3).mark(1, 3)
        log, records = recover(image)
        assert records == {}
        assert log.next_sequence == 3

    def test_a_damaged_first_record_of_the_oldest_file_is_corruption(self):
        with pytest.raises(DataCorruptionError):
            recover(Image(2, 1, 1).add_many(3, 4, 5).damage(3).mark(1, 3))


def test_find_records_yields_each_record_once_with_its_place():
    image = Image(1, 1, 1, size=10 << 20)
    sequence = 1
    while image.position + (1 << 20) < len(image.data):
        image.add(sequence, content=bytes([sequence]) * (sequence * 300_000 % 900_000))
        sequence += 1
    found = list(
        find_records(Reader({image.name: image.data}), _file(image), short_log_id(LOG_ID), DATA_OFFSET)
    )
    assert {header.sequence: offset for offset, header in found} == image.offsets
    assert len(found) == len(image.offsets) > 15


def _file(image):
    return FoundFile(image.name, image.number, image.epoch)


class TestDamageBelowTheTruncationPoint:
    """Nobody needs these records: that one of them cannot be read keeps no log from being opened."""

    @pytest.mark.parametrize(
        ("damaged", "truncation"), [({2}, 4), ({3}, 4), ({2, 3}, 4), ({2, 4}, 5), ({2, 3, 5}, 6), ({5}, 7)]
    )
    def test_is_passed_over(self, damaged, truncation):
        image = Image(1, 1, 1).add_many(1, 2, 3, 4, 5, 6, 7).mark(1, truncation)
        for sequence in damaged:
            image.damage(sequence)
        log, records = recover(image, Image(2, 1, 1).add(8))
        assert records == expect(*range(truncation, 9))
        assert log.next_sequence == 9

    def test_is_passed_over_in_an_older_epoch(self):
        image = Image(1, 1, 1).add_many(1, 2, 3, 4, 5).mark(1, 4).damage(2)
        log, records = recover(image, Image(2, 2, 5).add(5))
        assert records == expect(4) | expect(5, epoch=2)
        assert log.next_sequence == 6

    def test_of_whatever_size_is_passed_over(self):
        image = Image(1, 1, 1).add_many(1, 2, 3, 4, 5).mark(1, 4)
        image.data[image.offsets[2] : image.offsets[4]] = bytes(image.offsets[4] - image.offsets[2])
        assert recover(image)[1] == expect(4, 5)

    @pytest.mark.parametrize("damaged", [4, 5])
    def test_hides_none_behind_it(self, damaged):
        image = Image(1, 1, 1).add_many(1, 2, 3, 4, 5, 6).mark(1, 4).damage(2).damage(damaged)
        with pytest.raises(DataCorruptionError, match=r"record \d is damaged"):
            recover(image)

    def test_does_not_make_proven_what_is_not(self):
        image = Image(1, 1, 1).add_many(1, 2, 3, 4).add_many(5, 6, durable=4).mark(1, 4).damage(2)
        log, records = recover(image)
        assert records == expect(4, 5, 6)
        (unproven,) = log.unproven
        assert (unproven.start, unproven.end) == (image.offsets[5], image.position)
