"""The drawing shows what the tree is, and stays short."""

from headrace.btree.drawing import render
from headrace.btree.page_format import HEADER_BYTES, POINTER
from tests.unit.btree.byte_log import Tree


def test_a_small_tree_is_drawn_as_it_is():
    tree = Tree(2, page_bytes_max=60)
    tree.update({number.to_bytes(2, "big"): number - 2 for number in (1, 2, 3, 256, 65535)}, note=b"\x0a")
    assert (
        tree.run(render(tree.root))
        == """\
tree of 5 entries with keys of 2 bytes, height 2
3 pages, 150 bytes, live from offset 0, end 342
note 0a
index page at 90, 60 bytes, 2 entries, lowest 0
  from 0000
    leaf at 0, 60 bytes, 4 entries
      0001 = -1
      0002 = 0
      0003 = 1
      0100 = 254
  from ffff
    leaf at 60, 30 bytes, 1 entries
      ffff = 65533
"""
    )


def test_an_empty_tree_is_drawn():
    tree = Tree(16)
    assert tree.run(render(tree.root)).startswith("tree of 0 entries")


def test_the_drawing_of_a_large_tree_is_short():
    tree = Tree(8, page_bytes_max=HEADER_BYTES + 20 * (8 + POINTER.size))
    tree.update({number.to_bytes(8, "big"): number for number in range(10_000)})
    drawing = tree.run(render(tree.root))
    assert tree.root.height == 3
    assert "... 16 more" in drawing
    assert len(drawing.splitlines()) < 250
