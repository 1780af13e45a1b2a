# One page of recipes. `make demo` and `make test` need nothing but Python 3.11+ and (for Spark) Java 17.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PYTEST := $(BIN)/python -m pytest -q -n $(or $(PROCESSES),4) --dist worksteal

# What is compiled once is kept, beside the environment: tests start hundreds of processes.
unexport PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX := $(CURDIR)/$(VENV)/pycache

.PHONY: setup demo quick quick-store quick-rest test fmt-check fmt lint types layers generated matrix matrix-spark spark-cluster soak sim stores bookies bench bench-smoke bench-attributes bench-tables serve docs wheel lock clean

setup: $(STAMP)  ## the environment with everything the recipes below need

$(STAMP): pyproject.toml requirements.lock
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -e .
	touch $(STAMP)

demo: setup  ## the main job: a durable server, 336,776 flights, a PySpark pipeline, every total checked (ARGS=--keep leaves it running; STORE=s3: chunks in a local S3 server, or the URI of a store; CLUSTER=1: a cluster of 3 stores and 2 controllers)
	$(BIN)/python -m headrace.cli.main demo $(if $(STORE),--storage '$(STORE)') $(if $(CLUSTER),--cluster) $(ARGS)

quick: setup  ## a minute: format, lint, types, layers, drivers, unit tests (not those that are slow or start processes, and few examples of each property)
	$(MAKE) --jobs 2 --output-sync --keep-going quick-rest quick-store fmt-check lint types layers

# Two processes, each with tests of its own, take a third less CPU than two that both find all of them.
QUICK := $(PYTEST) -n 0 --hypothesis-profile=dev -m "not slow and not cluster"
QUICK_STORE := tests/unit/btree tests/unit/client tests/unit/segmentstore tests/unit/storage tests/unit/wal

quick-store:  ## of quick, the unit tests of logs, segments and the client
	$(QUICK) $(QUICK_STORE) $(PYTEST_ARGS)

quick-rest:  ## of quick, all other tests
	$(QUICK) tests/unit tests/tidy/test_drivers.py $(addprefix --ignore=,$(QUICK_STORE)) $(PYTEST_ARGS)

test: setup  ## what automation runs, in ten minutes: format, lint, types, layers, generated files, all tests
	$(MAKE) --jobs 2 --output-sync types generated fmt-check lint layers
	$(PYTEST) $(PYTEST_ARGS)

MATRIX_VERSIONS ?= 3.11 3.12 3.13
MATRIX_TESTS ?= tests/unit tests/properties tests/conformance tests/golden tests/integration/test_slow_peers.py
matrix:  ## the quick tests on each Python that is installed (all tests: MATRIX_TESTS=tests)
	$(PYTHON) tools/run_matrix.py --versions "$(MATRIX_VERSIONS)" $(MATRIX_TESTS) $(PYTEST_ARGS)

SPARK_VERSIONS ?= 4.2 4.3
matrix-spark:  ## the tests of Spark on each version of PySpark, each in an environment of its own
	for version in $(SPARK_VERSIONS); do \
		$(MAKE) setup VENV=.venv-spark-$$version && \
		.venv-spark-$$version/bin/python -m pip install --quiet "pyspark==$$version.*" && \
		.venv-spark-$$version/bin/python -m pytest -q tests/unit/spark tests/spark $(PYTEST_ARGS) || exit 1; \
	done

spark-cluster: setup  ## every way to run on a cluster: a zip, an archive, Spark Connect, pipelines; environments are made in the user's cache
	SPARK_CLUSTER_TESTED=all $(BIN)/python -m pytest -q tests/spark/test_cluster.py tests/spark/test_requirements.py $(PYTEST_ARGS)

fmt-check:  ## formatting, without changing anything
	$(BIN)/ruff format --check src tests benchmarks tools examples

fmt:  ## format everything
	$(BIN)/ruff format src tests benchmarks tools examples
	$(BIN)/ruff check --fix src tests benchmarks tools examples

lint:  ## ruff with the project's rules
	$(BIN)/ruff check src tests benchmarks tools examples

types:  ## mypy --strict over the package
	$(BIN)/mypy

layers:  ## imports point down
	$(BIN)/lint-imports

generated:  ## the checked-in gRPC code, the references of CLI, settings and errors and the tables of benchmarks and metrics are what their sources say
	$(BIN)/python tools/generate_rpc.py --check
	$(BIN)/python tools/generate_cli_reference.py --check
	$(BIN)/python tools/generate_settings_reference.py --check
	$(BIN)/python tools/generate_errors_reference.py --check
	$(BIN)/python tools/generate_benchmark_table.py --check
	$(BIN)/python tools/generate_metrics_table.py --check

serve: setup  ## a durable standalone server on the default ports, data in ./headrace-data
	$(BIN)/headrace standalone

bench: setup  ## every benchmark at its real size, each beside its floor (results: docs/benchmarks.md)
	$(BIN)/python -m benchmarks.run

bench-tables: setup  ## tables of a million keys: puts, gets, the start after a kill, space
	$(BIN)/python -m benchmarks.tables

bench-smoke: setup  ## every benchmark at its smallest size: do they still run?
	$(BIN)/python -m benchmarks.run --smoke

bench-attributes: setup  ## size and time of the B+Tree of a million attributes, by policy of compaction
	$(BIN)/python -m benchmarks.attributes

docs: setup  ## the documentation site, in build/site; `python -m http.server --directory build/site` shows it, with its search
	NO_MKDOCS_2_WARNING=1 PYTHONPATH=src $(BIN)/mkdocs build

wheel:  ## the package as a wheel, in dist, with nothing of earlier builds in it
	rm -rf build/lib build/bdist.*
	$(PYTHON) -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .

SEEDS ?= 500
sim: setup  ## SEEDS=n simulated histories on all cores
	$(BIN)/python -m tests.simulation.run_seeds --seeds $(SEEDS)

soak: setup  ## the long form of test, for hours: ten times the examples, and FIRST=n and SEEDS=n simulated histories
	$(PYTEST) --hypothesis-profile=night --timeout=7200 $(PYTEST_ARGS)
	$(BIN)/python -m tests.simulation.run_seeds --first $(or $(FIRST),10000) --seeds $(SEEDS)

stores: setup  ## chunks in real object stores; servers that are missing are installed by name, into the user's cache
	-$(BIN)/python -m tests.stores.servers
	-$(BIN)/python -m tests.stores.hdfs_server
	STORES_TESTED=all $(PYTEST) tests/stores $(PYTEST_ARGS)

bookies: setup  ## the log on real bookies; BookKeeper is fetched by Maven into the user's cache (BOOKKEEPER_VERSION=4.14.1: another one)
	$(BIN)/python -m tests.bookies.servers
	BOOKIES_TESTED=all $(PYTEST) -n 1 tests/bookies $(PYTEST_ARGS)

lock: setup  ## refresh requirements.lock from pyproject.toml
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile --quiet --universal --no-header --no-annotate --no-emit-index-url --extra demo --extra dev --extra spark pyproject.toml -o requirements.lock

clean:  ## remove the environment and caches (not your data)
	rm -rf $(VENV) build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
