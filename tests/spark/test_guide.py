"""Every block of the guide that needs no cluster runs, in the page's order, and prints what the page says."""

import pytest

from headrace.testing import LocalServer
from tests.docs.page_blocks import blocks_of
from tests.docs.page_runner import PageRunner, run_page
from tests.spark.standalone import ROOT

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.cluster]


def test_the_guide_is_true(spark, tmp_path):
    page = ROOT / "docs" / "guides" / "spark.md"
    with LocalServer(tmp_path / "data") as server:
        runner = PageRunner(tmp_path / "page", server)
        try:
            run_page(runner, page.name, blocks_of(page.read_text()))
        finally:
            runner.close()
            spark.catalog.dropTempView("orders")
