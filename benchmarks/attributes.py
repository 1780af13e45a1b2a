"""Size and time of the B+Tree of a million attributes, by policy of compaction, beside published figures.

    python -m benchmarks.attributes [--count 1000000] [--variants bound,...] [--smoke]

Inserts keys in ascending order; or loads all of them at once and then updates as many that are drawn with
replacement; in batches of 10, 100 and 1000. Pages are in memory: what remains is the tree's own price.
Sizes are MiB. ``appended`` counts every byte of the run (of the updates alone, after a load), ``occupied``
what is left after truncation at the borders of chunks: at the end, and at most over the run. Milliseconds
are medians per batch. At the end the tree is checked, and every value is read back and compared.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from array import array
from typing import NamedTuple

import numpy as np

from headrace.btree.check import check
from headrace.btree.compaction import CompactionPolicy
from headrace.btree.footer_format import empty_root
from headrace.btree.lookup import lookup
from headrace.btree.page_format import Buffer, Fetch, T
from headrace.btree.update import update
from headrace.limits import MIB
from headrace.segmentstore.attributes.config import AttributesConfig

KEY_BYTES = 16
BATCHES = (10, 100, 1000)
COUNT = 1_000_000
DEFAULT = AttributesConfig()
LOAD_KEYS = 100_000


class Variant(NamedTuple):
    title: str
    policy: CompactionPolicy
    chunk_bytes: int


VARIANTS = {
    "none": Variant("no compaction", CompactionPolicy(False, 0, append_split=False), 16 * MIB),
    "plain": Variant("one page per batch", CompactionPolicy(True, 0, append_split=False), 16 * MIB),
    "split": Variant("and append split", CompactionPolicy(True, 0), 16 * MIB),
    "bound": Variant("and bound 2.5", CompactionPolicy(), 16 * MIB),
    "bound2": Variant("and bound 2", CompactionPolicy(factor=2.0), 16 * MIB),
    "default": Variant(
        "the default, with its chunks",
        CompactionPolicy(factor=DEFAULT.space_factor),
        DEFAULT.rollover_bytes,
    ),
}
JUDGED = "default"
PUBLISHED_MIB = {  # without compaction: appended; with it: occupied
    "none": {"insert": (3991, 416, 60), "update": (32990, 29402, 17083)},
    "any": {"insert": (115, 97, 54), "update": (72, 103, 91)},
}


class Figures(NamedTuple):
    appended: int
    final: int
    largest: int
    milliseconds: float


class MemoryTree:
    """A tree whose live pages are in memory."""

    def __init__(self, variant: Variant) -> None:
        self.root = empty_root(KEY_BYTES)
        self.start = 0
        self.appended = 0
        self.largest = 0
        self.times: list[float] = []
        self._variant = variant
        self._pages: dict[int, Buffer] = {}

    def run(self, fetch: Fetch[T]) -> T:
        pages = self._pages
        try:
            refs = next(fetch)
            while True:
                refs = fetch.send([pages[ref.offset] for ref in refs])
        except StopIteration as done:
            return done.value

    def update(self, keys: bytes, values: array[int]) -> None:
        began = time.perf_counter()
        write = self.run(update(self.root, keys, values, note=b"", policy=self._variant.policy))
        self.times.append(time.perf_counter() - began)
        for offset in write.replaced:
            del self._pages[offset]
        for ref, data in write.new_pages:
            self._pages[ref.offset] = data
        self.root = write.root
        self.appended += write.size
        self.start = write.root.lowest // self._variant.chunk_bytes * self._variant.chunk_bytes
        self.largest = max(self.largest, self.root.end - self.start)

    def figures(self) -> Figures:
        milliseconds = statistics.median(self.times) * 1000
        return Figures(self.appended, self.root.end - self.start, self.largest, milliseconds)


def keys_of(numbers: np.ndarray) -> bytes:
    keys = np.zeros((len(numbers), 2), ">u8")
    keys[:, 1] = numbers
    return keys.tobytes()


def insert(tree: MemoryTree, count: int, batch: int) -> np.ndarray:
    """Insert all keys in ascending order; return their values."""
    for first in range(0, count, batch):
        numbers = np.arange(first, min(first + batch, count))
        tree.update(keys_of(numbers), array("q", numbers.tobytes()))
    return np.arange(count)


def load_and_update(tree: MemoryTree, count: int, batch: int) -> np.ndarray:
    """Load all keys, update as many that are drawn with replacement; return the values."""
    values = np.arange(count)
    tree.update(keys_of(values), array("q", values.tobytes()))
    tree.appended = tree.largest = 0
    tree.times.clear()
    dice = np.random.default_rng(18)
    for first in range(0, count, batch):
        numbers = np.unique(dice.integers(0, count, min(batch, count - first)))
        changed = numbers + (first + 1) * count
        values[numbers] = changed
        tree.update(keys_of(numbers), array("q", changed.tobytes()))
    return values


WORKLOADS = {"insert": insert, "update": load_and_update}


def measure(variant: Variant, workload: str, count: int, batch: int) -> Figures:
    tree = MemoryTree(variant)
    values = WORKLOADS[workload](tree, count, batch)
    assert tree.run(check(tree.root)).entries == count
    for first in range(0, count, LOAD_KEYS):
        numbers = np.arange(first, min(first + LOAD_KEYS, count))
        found = tree.run(lookup(tree.root, keys_of(numbers)))
        assert np.array_equal(np.frombuffer(found, np.int64), values[numbers])
    return tree.figures()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--variants", default=",".join(VARIANTS), help=", ".join(VARIANTS))
    parser.add_argument("--smoke", action="store_true", help="a second's worth, to see that it works")
    arguments = parser.parse_args()
    count = 5_000 if arguments.smoke else arguments.count
    print(f"{count} attributes; published figures are those of {COUNT}")
    ratios = []
    for name in arguments.variants.split(","):
        variant = VARIANTS[name]
        print(f"{variant.title}:")
        for workload in WORKLOADS:
            published = PUBLISHED_MIB.get(name, PUBLISHED_MIB["any"])[workload]
            for batch, beside in zip(BATCHES, published, strict=True):
                appended, final, largest, milliseconds = measure(variant, workload, count, batch)
                judged = appended if name == "none" else largest
                if name == JUDGED:
                    ratios.append(judged / MIB / beside)
                print(
                    f"  {workload} by {batch:<5} appended {appended / MIB:8.0f}  occupied"
                    f" {final / MIB:6.0f} at most {largest / MIB:6.0f}  published {beside:6}"
                    f"  {milliseconds:7.3f} ms",
                    flush=True,
                )
    if ratios and count == COUNT:
        print(f"P12: largest size, of the published one: {max(ratios):.2f}")


if __name__ == "__main__":
    sys.exit(main())
