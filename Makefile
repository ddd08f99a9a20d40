PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test browser check format fuzz fuzz-coverage soak bench record record-releases docs clean

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[langgraph]' --group dev
	$(BIN)/python -m compileall -q cli backends
	touch $@

demo: $(STAMP)
	@$(BIN)/python -m turnstate --store fixtures/demo.db turns demo
	@$(BIN)/python -m turnstate --store fixtures/demo.db show demo gazet/get_aoi/bbox --turn 1

test: $(STAMP)
	$(BIN)/python -m pytest -n 2

# For the tests of the page, which are skipped without one. Debian's and its kin's; elsewhere install Chromium yourself.
browser:
	@command -v chromium || command -v chromium-browser || command -v google-chrome || { \
		[ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null && \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium > /dev/null; \
	} || echo "no Chromium, and none can be installed here: the tests of the page are skipped" >&2

check: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python tests/docs.py --check

format: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# Half a million mutated payloads through the decoder (the tests run a tenth of that), stores of any rows through the
# whole program, new generated cases, and payloads and rows once more guided by coverage.
fuzz: $(STAMP) fuzz-coverage
	$(BIN)/python tests/fuzz_payloads.py 500000
	$(BIN)/python tests/fuzz_rows.py 2000
	HYPOTHESIS_PROFILE=explore $(BIN)/python -m pytest -n 2 tests

# In an environment of its own: atheris is not built for every platform. Ten minutes.
fuzz-coverage:
	$(PYTHON) -m venv $(VENV)-fuzz
	$(VENV)-fuzz/bin/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	$(VENV)-fuzz/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[langgraph]' --group dev atheris
	$(VENV)-fuzz/bin/python tests/fuzz_coverage.py payloads -max_total_time=300
	$(VENV)-fuzz/bin/python tests/fuzz_coverage.py rows -max_total_time=300

# A thousand reads beside a running graph, on each kind of store; well over half an hour.
soak: $(STAMP)
	PYTHONPATH=cli:backends:fixtures $(BIN)/python tests/soak.py

bench: $(STAMP)
	$(BIN)/python tests/benchmarks/main_job.py

# Records fixtures/*.db anew with real LangGraph graphs.
record: $(STAMP)
	$(BIN)/python fixtures/record.py

# Records fixtures/releases anew, in an environment of its own for each release (downloads; needs npm).
record-releases: $(STAMP)
	PYTHONPATH=tests $(BIN)/python fixtures/releases/record.py

# Writes the output blocks of README.md and docs/*.md anew from the commands above them, and the schema from the vocabulary.
docs: $(STAMP)
	$(BIN)/python tests/docs.py --write
	$(BIN)/turnstate check --print-schema | $(BIN)/python -m json.tool --no-ensure-ascii \
		> cli/turnstate/checking/turnstate.schema.json

clean:
	rm -rf $(VENV) $(VENV)-fuzz .venv-releases .pytest_cache .mypy_cache .ruff_cache .hypothesis dist
