"""Torn writes, damaged bytes, and trees that contradict themselves."""

import dataclasses
import random
from array import array

import pytest

from headrace.btree import page_writer
from headrace.btree import update as update_module
from headrace.btree.check import check
from headrace.btree.compaction import CompactionPolicy
from headrace.btree.footer_format import FOOTER_BYTES, decode_footer, encode_footer
from headrace.btree.lookup import FETCH_PAGES_MAX, lookup, read_range
from headrace.btree.page_format import ABSENT, HEADER_BYTES, INDEX, LEAF, POINTER, seal_page, verify_page
from headrace.btree.page_writer import PageWriter
from headrace.btree.touched_pages import TouchedPages
from headrace.btree.update import _Update, update
from headrace.errors import DataCorruptionError, InvalidArgumentError
from tests.effort import stride
from tests.unit.btree.byte_log import Tree, TruncatedError, run

KEY_BYTES = 4
FIVE_CHILDREN = HEADER_BYTES + 5 * (KEY_BYTES + POINTER.size)


def key(number):
    return number.to_bytes(KEY_BYTES, "big")


def grow(rounds=8, policy=CompactionPolicy(), page_bytes_max=FIVE_CHILDREN):  # noqa: B008
    """A tree of three levels that was changed, truncated and reopened several times, and what is in it."""
    dice = random.Random(7)
    tree = Tree(KEY_BYTES, policy=policy, page_bytes_max=page_bytes_max)
    model = {}
    for turn in range(rounds):
        changes = {key(dice.randrange(200)): turn * 1000 + place for place in range(20)}
        lowest, live = tree.root.lowest, set(live_pages(tree))
        write = tree.update(changes, note=b"%d" % turn)
        model |= changes
        tree.reopen()
        kept = {ref for ref in live if ref.offset not in write.replaced}
        assert set(live_pages(tree)) == kept | {ref for ref, _ in write.new_pages}
        assert not model.keys() - changes or tree.root.lowest > lowest
        tree.truncate()
    return tree, model


# ------------------------------------------------------------------------------------------ torn writes


def tear_writes(step):
    tree, model = grow()
    former, start = tree.root, tree.log.end
    write = tree.plan({key(7): -7, key(150): -150, key(100): None}, b"torn")
    whole = b"".join(write.data)
    for length in range(0, len(whole), step):
        for garbage in (b"", b"\xa5" * 50, former.note + whole[:70], whole[-FOOTER_BYTES:]):
            if length + len(garbage) > len(whole):
                continue
            torn, _ = grow()
            torn.log.append([whole[:length], garbage])
            torn.recover()
            assert torn.root == former.moved(torn.log.end)
            torn.check()
            assert torn.read() == model
            torn.update({key(999): 1})
            torn.reopen()
            torn.truncate()
            torn.check()
            assert torn.read() == model | {key(999): 1}
    tree.log.append([whole, b"\xa5" * 100])
    tree.recover()
    assert tree.root == write.root.moved(start + len(whole) + 100)
    tree.check()
    assert tree.get(key(7), key(150), key(100)) == [-7, -150, None]


@pytest.mark.slow
def test_the_former_root_outlives_a_torn_write():
    tear_writes(stride(17))


def test_the_first_write_may_be_torn():
    tree = Tree(KEY_BYTES)
    write = tree.plan({key(1): 1})
    tree.log.append([b"".join(write.data)[:-1]])
    tree.recover()
    assert tree.root.page is None
    assert tree.root.lowest == tree.root.end == tree.log.end
    tree.update({key(2): 2})
    tree.truncate()
    tree.check()
    assert tree.read() == {key(2): 2}


# ------------------------------------------------------------------------------------------ planted bugs


def free_a_page_too_early(monkeypatch):
    def lowest_but_one(page, count, key_bytes):
        at = HEADER_BYTES + key_bytes
        size = key_bytes + POINTER.size
        return sorted(POINTER.unpack_from(page, at + slot * size)[2] for slot in range(count))[:2][-1]

    monkeypatch.setattr(page_writer, "lowest_of_children", lowest_but_one)


def ignore_pages_that_stay(monkeypatch):
    honest = PageWriter._write_one

    def write_one(self, kind, page, count, first):
        began = self.pages[0][0].offset if self.pages else self.end
        *found, lowest = honest(self, kind, page, count, first)
        return (*found, max(lowest, began))

    monkeypatch.setattr(PageWriter, "_write_one", write_one)


def write_the_footer_first(monkeypatch):
    begin, finish = PageWriter.__init__, _Update._finish

    def init(self, end, *rest, **more):
        begin(self, end + FOOTER_BYTES, *rest, **more)

    def footer_first(self, top, note):
        self._writer.end -= FOOTER_BYTES
        write = finish(self, top, note)
        footer = encode_footer(dataclasses.replace(write.root, end=self._root.end + FOOTER_BYTES))
        return dataclasses.replace(write, data=[footer, *write.data[:-1]])

    monkeypatch.setattr(PageWriter, "__init__", init)
    monkeypatch.setattr(_Update, "_finish", footer_first)


def forget_what_a_split_adds(monkeypatch):
    monkeypatch.setattr(update_module, "encode_pointers", lambda pages: b"")


def move_a_page_without_its_parent(monkeypatch):
    honest = TouchedPages._add_moved

    def add_moved(self, parent, level, slot):
        child = honest(self, parent, level, slot)
        parent.children.remove(child)
        return child

    monkeypatch.setattr(TouchedPages, "_add_moved", add_moved)


@pytest.mark.parametrize(
    "plant",
    [
        free_a_page_too_early,
        ignore_pages_that_stay,
        write_the_footer_first,
        forget_what_a_split_adds,
        move_a_page_without_its_parent,
    ],
)
def test_a_planted_bug_is_convicted(monkeypatch, plant):
    plant(monkeypatch)
    with pytest.raises((AssertionError, DataCorruptionError, TruncatedError)):
        tear_writes(100)


# ---------------------------------------------------------------------------------------- damaged bytes


def live_pages(tree):
    asked = []
    tree.run(check(tree.root), asked)
    return [ref for refs in asked for ref in refs]


def test_each_damaged_byte_of_a_page_is_convicted():
    tree, model = grow()
    for ref in live_pages(tree):
        data = tree.log.read(*ref)
        for at in range(0, ref.length, stride(3)):
            damaged = bytearray(data)
            damaged[at] ^= 0x40
            with pytest.raises(DataCorruptionError) as convicted:
                verify_page(ref, damaged, KEY_BYTES)
            assert convicted.value.offset == ref.offset
        tree.log.overwrite(ref.offset, damaged)
        with pytest.raises(DataCorruptionError):
            tree.check()
        with pytest.raises(DataCorruptionError):
            tree.get(*model)
        with pytest.raises(DataCorruptionError):
            tree.read()
        with pytest.raises(DataCorruptionError):
            tree.plan(dict.fromkeys(model, 5))
        tree.log.overwrite(ref.offset, data)
    tree.check()


def test_a_page_of_another_place_is_not_taken():
    tree, _ = grow()
    one, other = live_pages(tree)[:2]
    for wrong in (tree.log.read(*other), tree.log.read(*one)[:-1], b"", bytes(one.length)):
        with pytest.raises(DataCorruptionError):
            verify_page(one, wrong, KEY_BYTES)
    with pytest.raises(DataCorruptionError):
        verify_page(one, tree.log.read(*one), KEY_BYTES + 1)


def test_each_damaged_byte_of_a_footer_is_convicted():
    tree, _ = grow()
    end = tree.log.end
    footer = tree.log.read(end - FOOTER_BYTES, FOOTER_BYTES)
    assert decode_footer(footer, end) == tree.root
    for at in range(FOOTER_BYTES):
        damaged = bytearray(footer)
        damaged[at] ^= 1
        with pytest.raises(DataCorruptionError):
            decode_footer(damaged, end)
    for data, where in ((footer, end + 1), (footer[1:], end), (b"", 0)):
        with pytest.raises(DataCorruptionError):
            decode_footer(data, where)


# ------------------------------------------------------------------------- what only the check can see


def change_entry(tree, ref, at, data):
    """Change bytes of a page and give it the right checksum."""
    page = bytearray(tree.log.read(*ref))
    page[at : at + len(data)] = data
    kind, count = page[5], int.from_bytes(page[8:12], "big")
    seal_page(page, kind, KEY_BYTES, count, ref.offset)
    tree.log.overwrite(ref.offset, page)


def kind_of(tree, ref):
    return tree.log.read(*ref)[5]


def first_of(tree, kind):
    return next(
        ref for ref in live_pages(tree) if kind_of(tree, ref) == kind and ref.length > FIVE_CHILDREN - 22
    )


def swap_keys(tree):
    change_entry(tree, first_of(tree, LEAF), HEADER_BYTES, b"\xff" * KEY_BYTES)


def leave_the_range_above(tree):
    leaves = [ref for ref in live_pages(tree) if kind_of(tree, ref) == LEAF]
    lowest_leaf = min(leaves, key=lambda ref: tree.log.read(*ref)[HEADER_BYTES:])
    change_entry(tree, lowest_leaf, lowest_leaf.length - 12, b"\xfe" * KEY_BYTES)


def leave_the_range_below(tree):
    leaves = [ref for ref in live_pages(tree) if kind_of(tree, ref) == LEAF]
    highest_leaf = max(leaves, key=lambda ref: tree.log.read(*ref)[HEADER_BYTES:])
    change_entry(tree, highest_leaf, HEADER_BYTES, bytes(KEY_BYTES))


def begin_an_index_page_above_zero(tree):
    change_entry(tree, tree.root.page, HEADER_BYTES, b"\0\0\0\1")


def name_a_child_twice(tree):
    page = tree.log.read(*tree.root.page)
    size = KEY_BYTES + POINTER.size
    change_entry(tree, tree.root.page, HEADER_BYTES + size + KEY_BYTES, page[HEADER_BYTES + KEY_BYTES :][:18])


def tell_a_wrong_lowest_offset(tree):
    at = HEADER_BYTES + KEY_BYTES + 10
    change_entry(tree, tree.root.page, at, (tree.root.lowest - 1).to_bytes(8, "big"))


def tell_another(tree, **fields):
    tree.root = dataclasses.replace(tree.root, **fields)


@pytest.mark.slow
@pytest.mark.parametrize(
    "contradict",
    [
        swap_keys,
        leave_the_range_above,
        leave_the_range_below,
        begin_an_index_page_above_zero,
        name_a_child_twice,
        tell_a_wrong_lowest_offset,
        lambda tree: tell_another(tree, entries=tree.root.entries + 1),
        lambda tree: tell_another(tree, pages=tree.root.pages - 1),
        lambda tree: tell_another(tree, live_bytes=0),
        lambda tree: tell_another(tree, lowest=tree.root.lowest + 1),
        lambda tree: tell_another(tree, lowest=tree.root.lowest - 1),
        lambda tree: tell_another(tree, height=tree.root.height - 1),
        lambda tree: tell_another(tree, height=tree.root.height + 1),
        lambda tree: tell_another(tree, page=None),
        lambda tree: tell_another(tree, end=tree.root.end - FOOTER_BYTES),
    ],
)
def test_the_check_convicts_what_contradicts_itself(contradict):
    tree, _ = grow()
    assert tree.root.height == 3
    assert {kind_of(tree, ref) for ref in live_pages(tree)} == {LEAF, INDEX}
    contradict(tree)
    with pytest.raises(DataCorruptionError):
        tree.check()


# --------------------------------------------------------------------------------------- refused, asked


def one_update(tree, keys, values, note=b"", **more):
    return update(tree.root, keys, values, note=note, policy=tree.policy, **more)


@pytest.mark.parametrize(
    ("keys", "count"),
    [(key(2) + key(1), 2), (key(1) * 2, 2), (key(1)[:-1], 1), (key(1), 2), (key(1) * 100, 100), (b"", 1)],
)
def test_a_bad_batch_is_refused_before_anything_is_read(keys, count):
    tree, _ = grow()
    with pytest.raises(InvalidArgumentError):
        next(one_update(tree, keys, array("q", [1] * count)))


def test_other_bad_arguments_are_refused_before_anything_is_read():
    tree, _ = grow()
    for fetch in (
        one_update(tree, key(1), array("q", [1]), note=bytes(129)),
        one_update(tree, key(1), array("Q", [1])),
        one_update(tree, key(1), array("q", [1]), page_bytes_max=1 << 16),
        one_update(tree, key(1), array("q", [1]), page_bytes_max=60),
        lookup(tree.root, b"12345"),
        read_range(tree.root, b"1", b"2222", 1),
        read_range(tree.root, b"1111", b"2222", 0),
    ):
        with pytest.raises(InvalidArgumentError):
            next(fetch)


def test_a_cold_lookup_reads_one_page_per_level_and_a_large_one_asks_in_portions():
    tree = Tree(KEY_BYTES, page_bytes_max=FIVE_CHILDREN)
    tree.update({key(number): number for number in range(4000)})
    asked = []
    tree.run(lookup(tree.root, key(5)), asked)
    assert [len(refs) for refs in asked] == [1] * tree.root.height
    asked = []
    found = tree.run(lookup(tree.root, b"".join(map(key, range(0, 8000, 2)))), asked)
    assert list(found) == [number if number < 4000 else ABSENT for number in range(0, 8000, 2)]
    assert max(map(len, asked)) <= FETCH_PAGES_MAX
    pages = [ref for refs in asked for ref in refs]
    assert len(pages) == len(set(pages)) == tree.root.pages


def test_pages_may_come_as_views():
    tree, model = grow(page_bytes_max=FIVE_CHILDREN)

    def read(offset, length):
        return memoryview(tree.log.read(offset, length))

    found = run(lookup(tree.root, b"".join(model)), read, KEY_BYTES)
    assert list(found) == list(model.values())
    keys = sorted(model)
    write = run(one_update(tree, b"".join(keys), array("q", [3] * len(keys))), read, KEY_BYTES)
    assert list(write.previous) == [model[name] for name in keys]
