"""Seeds that found a mistake once, by scenario, and what it was. They stay in the tests."""

CONTAINER = {
    4: "a stop waited for ever: a request refused while it left the queue ended no wait for the log",
    17: "a creation was refused because the segment exists, and the next call because it does not",
    80: "a repeated creation that waited in the log's queue hid the segment from writers",
    9: "a creation was answered by no such segment, because eviction was faster than the answer",
    101: "a source merged into a deleted segment stayed in the cache as not stored, until nothing was taken",
    103: "a frame that became durable while the container stopped wanted to begin a checkpoint",
    116: "a writer waited for ever for blocks that it had sent while the container stopped",
    216: "the error of a merge whose caller had given up was never looked at",
    10197: "a read spanned so many slow chunks that it always took too long, however often it was asked",
    10730: "the same, at the first read of a new owner",
    10931: "no owner came up again: all that was merged and deleted in the log had to fit into its cache",
    211737: "a look-up of a segment while the log failed was answered by an unknown outcome",
    212342: "a write that took so many calls that one of them always failed was made again and again, whole",
    905931: "the same, while the log failed during the eviction for the slot of that segment",
    2002716: "the clients did not expect that a catalogue in storage could not be read at their first look",
    31000342: "the footer of an index that had become empty was truncated with its pages",
    221627: "a fenced owner answered a repeated merge by what it remembered, without a write",
}

ATTRIBUTES = {
    239: "a read of several pages of an index failed with a group of errors, and the container ended",
    61000043: "a rewrite of chunks was stopped while its commit was in flight; the next write counted the "
    "chunks that it had replaced: the layout was damaged",
}

DATA_PLANE = {
    3000: "a writer was set up while its segment got its first index, and was told that there is no segment",
    3111: "the same",
    454: "no slot for a segment became free: the row of another one was larger than the whole log",
    5134: "the judge believed that a removal that removes nothing now would remove nothing later",
    600244: "a table whose log storage answers slowly was read anew from its beginning at every failure",
    600389: "the same, with another table",
    801111: "a fenced owner acknowledged the removal of a key that its successor had put, without a write",
}

CROWDS = {
    186: "a merge asked for again was refused because the target had been sealed behind the first one",
    40270: "a source that was deleted was not said to be gone, but the target to be sealed behind that; "
    "where storage makes objects, a delayed append waited for the age of what was unstored",
    114: "an empty source was merged into a target that had been sealed before that was decided",
    8000300: "a merge was refused because its source was truncated, by a truncation that a crash undid",
}

STORAGE_WRITER = {
    17: "the bound on waiting operations blocked the merge for which they waited",
    237: "pressure made a merged source be flushed although its target had its bytes already",
    803: "the log was cut behind a merge into a deleted segment before storage had forgotten the source",
    1193: "a source merged into a deleted target was compared with bytes that the log needed no longer",
    18: "a commit of collected garbage whose reply was lost was taken for missing rows",
    400436: "a source that was stored after its target had its bytes, unknown to us, was called corrupt",
}

READ_INDEX = {
    9: "a look ahead took the memory of the bytes that were about to be answered, and wrote others over them",
}

TABLES = {
    23: "a table whose updates were given up in the queue was never idle, and never evicted",
}

LONG_ATTRIBUTES = frozenset({239, 61000043})
LONG_CONTAINER = frozenset({4, 17, 80, 103, 216, 10730, 10931, 221627, 905931, 2002716})
LONG_CROWDS = frozenset({186, 8000300})
LONG_DATA_PLANE = frozenset({454, 3000, 5134, 600244, 600389, 801111})
"""Those that take a CPU second and more: the long form of test has them."""
