"""Which changes of tables may begin while others of their connection run as tasks."""

from hypothesis import given
from hypothesis import strategies as st

from headrace.model.tables import TableEntry, TableKey
from headrace.segmentstore.ingress.change_order import ChangeOrder
from headrace.wire import commands as c

KEYS = st.lists(st.sampled_from([b"a", b"b", b"c", b"d"]), min_size=1, max_size=3)
LENGTHS = st.sampled_from([-1, -1, -1, 0, 40])
UPDATES = st.builds(
    lambda keys, length: c.UpdateTableEntries(1, "t", "", [TableEntry(key, b"") for key in keys], length),
    KEYS,
    LENGTHS,
)
REMOVALS = st.builds(
    lambda keys, length: c.RemoveTableKeys(1, "t", "", [TableKey(key) for key in keys], length), KEYS, LENGTHS
)
CHANGES = st.one_of(UPDATES, REMOVALS)


def keys_of(change):
    items = change.keys if isinstance(change, c.RemoveTableKeys) else change.table_entries
    return {item.key for item in items}


@given(st.lists(st.tuples(CHANGES, st.booleans()), max_size=6), UPDATES)
def test_a_change_begins_only_if_it_commutes_with_all_that_run(running, change):
    order = ChangeOrder()
    for one, _ in running:
        order.begin(one)
    for one, has_ended in running:
        if has_ended:
            order.end(one)
    left = [one for one, has_ended in running if not has_ended]
    commutes = all(
        one.table_segment_offset < 0
        and change.table_segment_offset < 0
        and not keys_of(one) & keys_of(change)
        for one in left
    )
    assert order.may_begin(change) is commutes
