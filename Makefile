# Everything that is run in this project.  `make run` and `make test` do all they need on a fresh machine.
#
#   make run         makes .venv, builds, runs the demo
#   make pipeline    the data pipeline on Spark, on what real brokers wrote; needs Java 17
#   make test        the gate: C tests under sanitizers, fuzz smoke, and the tests of the first tier; up to half an hour
#   make test-ci     the tests of the second tier, which .ci/run runs after those
#   make test-long   every test of all tiers at full depth; an hour or more
#   make packages    fetches the Java packages that tests run: a server of S3, Hadoop and Kafka for Spark, Delta, Iceberg
#   make jvm         builds the JVM reader of the data source, build/jvm/offsetlog-spark.jar; needs Java 17 and Maven
#   make test-jvm    the tests of the data source with it; half an hour
#   make test-times  writes docs/test-times.md: the cost of each file of tests
#   make lint types  ruff; mypy
#   make docs        builds the site of the documents, build/site; a warning is an error
#   make pictures    makes docs/pictures again; that of the report needs Java 17 and Chromium
#   make wheel-test  builds sdist and wheel, and tests over the installed wheel what packing can change
#   make test-sanitized   the Python tests over extensions built with AddressSanitizer and UBSan
#   make test-tsan   the C tests under ThreadSanitizer; ten minutes or more
#   make bench       the benchmarks of the engine
#   make fuzz        every fuzz target for FUZZ_SECONDS (30)
#   make lock        resolves requirements-dev.lock and requirements-docs.lock again
#   make clean       removes what was built; .venv stays
#
# Variables: PYTHON (the interpreter that makes .venv), JOBS, FUZZ_SECONDS; TESTS (arguments for pytest): `make test TESTS=...` runs
# pytest with these arguments and nothing else.  OL_SEED is the first seed of every test that draws random numbers.

PYTHON ?= python3
VENV ?= .venv
JOBS ?= 2
TESTS ?=
FUZZ_SECONDS ?= 30
# For work that mostly waits, for pip or for brokers.
ONE_MORE := $(shell expr $(JOBS) + 1)
PY := $(VENV)/bin/python
WHEEL := build/wheel
SANITIZE := address,undefined

export OFFSETLOG_JOBS := $(JOBS)
# The tests look for real brokers' data beside the repository, also when they run from a copy deeper down.
export OFFSETLOG_SHARED ?= $(abspath ../shared)

.PHONY: run pipeline jvm test test-jvm library-c test-c test-fuzz fuzz test-python test-ci test-long packages test-times test-sanitized test-tsan wheel-test lint types docs pictures bench lock build clean
.DELETE_ON_ERROR:

run: build
	@$(VENV)/bin/offsetlog demo
	@echo "Next: . $(VENV)/bin/activate, then docs/tutorial.md"

# Java is looked for first: without it Spark says so in forty lines.
pipeline: build
	@command -v java >/dev/null || { echo "offsetlog: Spark needs Java 17; on Debian: apt install openjdk-17-jre-headless" >&2; exit 1; }
	@$(PY) examples/pipeline.py build/pipeline

ifeq ($(strip $(TESTS)),)
# pip mostly waits: the C tests' library is compiled meanwhile.
test:
	@$(MAKE) -s -j$(ONE_MORE) $(VENV)/.made library-c
	@$(MAKE) -s test-c test-fuzz test-python
else
test: test-python
endif

build: $(VENV)/.installed
	@$(PY) setup.py -q build_ext --inplace

# One clear line for each thing that a fresh machine may lack.
$(VENV)/.made: requirements-dev.lock
	@command -v $(PYTHON) >/dev/null || { echo "offsetlog: there is no $(PYTHON); name one: make PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	    echo "offsetlog: Python 3.11 or newer is needed, $(PYTHON) is older; name one: make PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	    echo "offsetlog: $(PYTHON) cannot make virtual environments; on Debian: apt install python3-venv" >&2; exit 1; }
	@$(PYTHON) -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))' || { \
	    echo "offsetlog: $(PYTHON) has no headers (Python.h); on Debian: apt install python3-dev" >&2; exit 1; }
	@command -v $(CC) >/dev/null || { echo "offsetlog: there is no C compiler; on Debian: apt install gcc" >&2; exit 1; }
	@echo "offsetlog: installing the Python packages of requirements-dev.lock into $(VENV)"
	@test -x $(PY) || $(PYTHON) -m venv $(VENV)
	@$(PY) -m pip install -q --disable-pip-version-check -r requirements-dev.lock
	@touch $@

# By path: the hook that setuptools installs otherwise is asked after every folder of sys.path, so that a directory "offsetlog" in
# the working directory would be taken for the package, and type checkers do not see it at all.
# PySpark finds the data source by the name of a top-level package, which lies deeper here.
$(VENV)/.installed: $(VENV)/.made pyproject.toml Makefile
	@echo "offsetlog: building, which takes some minutes"
	@$(PY) -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation --config-settings editable_mode=compat -e .
	@echo $(CURDIR)/offsetlog/spark/discovery > $$($(PY) -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/pyspark_offsetlog.pth
	@touch $@

library-c:
	@$(MAKE) -s -C tests/c library

test-c:
	@$(MAKE) -s -C tests/c -j$(JOBS)

test-tsan:
	@$(MAKE) -s -C tests/c -j$(JOBS) SANITIZE=thread

test-fuzz:
	@if [ -f tests/fuzz/Makefile ]; then $(MAKE) -s -C tests/fuzz -j$(JOBS); fi

fuzz:
	@OL_FUZZ_SECONDS=$(FUZZ_SECONDS) $(MAKE) -s -C tests/fuzz -j$(JOBS)

# Tests are spread over JOBS processes; those that share a Spark session or Kafka's templates stay in one (tests/tiers.py).
TIER = $(PY) -m pytest -n $(1) --dist loadgroup

# The directories of the first tier lie in memory where there are 4 GB for them, like those of the C tests: two files of tests
# alone flush 21,000 times, and what is durable they say by themselves.  The other tiers, and TMPDIR=/tmp, write to a disk.
IN_MEMORY := $(if $(TMPDIR),,$(shell df --output=avail /dev/shm 2>/dev/null | awk 'NR == 2 && $$1 >= 4000000 {print "/dev/shm"}'))
GATE := $(if $(IN_MEMORY),PYTEST_DEBUG_TEMPROOT=$(IN_MEMORY)) $(call TIER,$(JOBS)) -m gate \
    $(if $(IN_MEMORY),-o tmp_path_retention_policy=failed -o tmp_path_retention_count=1)

test-python: build
ifeq ($(strip $(TESTS)),)
	@$(GATE)
else
	@$(PY) -m pytest $(TESTS)
endif

test-ci: build
	@$(call TIER,$(ONE_MORE)) -m ci

JAR := build/jvm/offsetlog-spark.jar

jvm: $(JAR)

$(JAR): offsetlog/spark/jvm/pom.xml $(shell find offsetlog/spark/jvm/src -name '*.java')
	@command -v mvn >/dev/null || { echo "offsetlog: the JVM reader is built by Maven; on Debian: apt install maven openjdk-17-jdk-headless" >&2; exit 1; }
	@mvn -B -q -Dstyle.color=never -f offsetlog/spark/jvm/pom.xml package

# One Spark for all of it, in which the jar is: the tests of the Python source once more, and those of the reader itself.
test-jvm: build packages $(JAR)
	@OFFSETLOG_SPARK_JAR=$(CURDIR)/$(JAR) $(PY) -m pytest -q $(or $(TESTS),tests/spark/test_jvm_reader.py tests/spark/test_source_conformance.py \
	    tests/spark/test_source_spark.py tests/spark/test_source_missing.py tests/spark/test_source_damage.py tests/spark/test_source_cleaned.py \
	    tests/spark/test_source_splits.py tests/spark/test_source_options.py tests/spark/test_source_stream.py tests/spark/test_pruning.py \
	    tests/spark/test_sink_writing.py tests/spark/test_s3_spark.py::test_what_a_session_carries_and_shows)

test-times: build
	@mkdir -p build/times
	@$(GATE) -q --junitxml=build/times/gate.xml
	@$(call TIER,$(ONE_MORE)) -q -m ci --junitxml=build/times/ci.xml
	@$(PY) tests/times.py --tier gate=build/times/gate.xml --tier ci=build/times/ci.xml > build/times/page.md
	@mv build/times/page.md docs/test-times.md

test-long: export OFFSETLOG_DEPTH := long
test-long: export OFFSETLOG_REQUIRE_KAFKA := 1
test-long: export OFFSETLOG_REQUIRE_PACKAGES := 1
test-long: build packages
	@OFFSETLOG_SOAK_SECONDS=300 $(PY) -m pytest -q -m ci tests/server/test_soak.py
	@$(MAKE) -s -C tests/c -j$(JOBS)
	@OFFSETLOG_DEPTH=gate $(MAKE) -s test-tsan
	@$(MAKE) -s -C tests/c test_stress SANITIZE=thread
	@OL_FUZZ_SECONDS=600 $(MAKE) -s -C tests/fuzz -j$(JOBS)
	@$(MAKE) -s test-sanitized TESTS=tests/server/test_mutated_frames.py
	@$(call TIER,$(ONE_MORE))
	@$(MAKE) -s test-jvm

packages: $(VENV)/.made
	@$(PY) tests/maven_packages.py

lint: $(VENV)/.made
	@$(PY) -m ruff check .

types: $(VENV)/.made
	@$(PY) -m mypy

# The packages of the site come when it is first built; the build itself needs no network.
$(VENV)/.docs: $(VENV)/.made requirements-docs.lock
	@$(PY) -m pip install -q --disable-pip-version-check -r requirements-docs.lock
	@touch $@

# The theme announces its successor at each start, which is no warning about the documents.
docs: build $(VENV)/.docs
	@NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict

pictures: pipeline
	@$(PY) docs/site/pictures.py build/pipeline/audit.html

# The wheel is built from the sdist, so that a file missing there is found.  Its tests run from a copy without the package beside
# them, so that they cannot import the source tree, in a virtual environment that borrows the libraries of $(VENV) but not the
# package installed there: the .pth files of a borrowed folder have no effect.  Only what packing can change is run.
wheel-test: $(VENV)/.made
	@rm -rf $(WHEEL) && mkdir -p $(WHEEL)/run
	@$(PY) -m build --no-isolation --outdir $(WHEEL) > $(WHEEL)/build.log 2>&1 || { cat $(WHEEL)/build.log >&2; exit 1; }
	@$(PY) tests/wheel_contents.py $(WHEEL)/*.whl
	@$(PY) -m venv $(WHEEL)/venv
	@$(PY) -c 'import sysconfig; print(sysconfig.get_path("purelib"))' > $(WHEEL)/borrowed.pth
	@cp $(WHEEL)/borrowed.pth $$($(WHEEL)/venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
	@$(WHEEL)/venv/bin/python -m pip install -q --disable-pip-version-check --no-deps --force-reinstall $(WHEEL)/*.whl
	@cp -r tests pyproject.toml $(WHEEL)/run/
	@cd $(WHEEL)/run && ../venv/bin/python -m pytest $(or $(TESTS),tests/installed \
	    tests/spark/test_source_spark.py::test_spark_finds_it_without_a_hint)

test-sanitized: $(VENV)/.made
	@OFFSETLOG_SANITIZE=$(SANITIZE) $(PY) setup.py -q build
	@rm -rf build/sanitize/run && mkdir -p build/sanitize/run && cp -r $(wildcard tests benchmarks examples) pyproject.toml build/sanitize/run/
	@cp build/sanitize/lib.*/faults/*.so build/sanitize/run/tests/faults/
	@cd build/sanitize/run && \
	    LD_PRELOAD="$$($(CC) -print-file-name=libasan.so) $$($(CC) -print-file-name=libubsan.so)" \
	    ASAN_OPTIONS=detect_leaks=0:abort_on_error=1 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 \
	    PYTHONPATH="$$(echo $(CURDIR)/build/sanitize/lib.*)" \
	    $(abspath $(PY)) -m pytest -m "gate and not source_tree and not kafka and not spark" $(TESTS)

bench: build
	@$(PY) -m benchmarks engine

# Needs a resolver in the environment: .venv/bin/pip install pip-tools
COMPILE = $(PY) -m piptools compile -q --extra $(1) --strip-extras --allow-unsafe --no-emit-index-url --no-emit-find-links \
    --no-emit-trusted-host --no-emit-options --no-header --no-annotate -o - pyproject.toml

lock: $(VENV)/.made
	@{ sed -n '/^#/p' requirements-dev.lock; $(call COMPILE,dev) | grep -E '^[a-z0-9-]+=='; } > build/requirements-dev.lock
	@mv build/requirements-dev.lock requirements-dev.lock
	@{ sed -n '/^#/p' requirements-docs.lock; $(call COMPILE,docs -c requirements-dev.lock) | grep -E '^[a-z0-9-]+==' | \
	   grep -vxFf requirements-dev.lock; } > build/requirements-docs.lock
	@mv build/requirements-docs.lock requirements-docs.lock

clean:
	@rm -rf build dist *.egg-info offsetlog/_native/*.so offsetlog/_native/*.so.* .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks
	@find . -name __pycache__ -not -path './.venv*' -prune -exec rm -rf {} +
