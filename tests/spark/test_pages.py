"""Every block of the guide that needs no cluster, and the pipeline of the README, run in one session."""

import re
from pathlib import Path

import pytest

from headrace.testing import LocalServer
from tests.docs.page_blocks import blocks_of
from tests.docs.page_runner import PageRunner, run_page
from tests.effort import soak

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.cluster]
ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "guides" / "spark.md").read_text()
EXAMPLES = (ROOT / "docs" / "guides" / "spark-examples.md").read_text()
README = (ROOT / "README.md").read_text()


class SparkRunner(PageRunner):
    """Names the server in every source and sink, and a directory of the test for checkpoints.

    Spark takes relative paths from where its JVM was started.
    """

    def here(self, text):
        uri = self.uri
        text = text.replace('.format("headrace")', f'.format("headrace").option("controller", "{uri}")')
        text = text.replace('"checkpointLocation", "', f'"checkpointLocation", "{self.directory}/')
        return super().here(text)


@pytest.fixture
def runner(spark, tmp_path):
    with LocalServer(tmp_path / "served", "--in-memory") as server:
        runner = SparkRunner(tmp_path / "page", server, namespace={"spark": spark})
        yield runner
        runner.close()


def test_the_guide_is_true(runner, spark):
    run_page(runner, "spark.md", blocks_of(GUIDE))
    spark.catalog.dropTempView("orders")


@soak
def test_the_examples_are_true(runner):
    run_page(runner, "spark-examples.md", blocks_of(EXAMPLES))


def test_the_pipeline_of_the_readme_runs(runner):
    first, pipeline = (block for block in blocks_of(README) if block.language == "python")
    runner.run(first)
    runner.run(pipeline)
    assert "spark" in pipeline.code
    assert re.search(r"awaitTermination|collect|show", pipeline.code)
