# Each target installs its own requirements.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: certify check test theory nightly versions docs bench gpu certificates matrix engines locks clean

certify: .venv/certify ## certify our torch block verifier and Hugging Face transformers
	$(BIN)/draftproof certify torch-block transformers

check: .venv/test ## check style and types, run the fast tests: two minutes
	$(STYLE)
	$(BIN)/pytest -n auto --dist worksteal -m "not slow"

test: .venv/test docs ## check style and types, build the site, run the tests
	$(STYLE)
	$(BIN)/pytest -n auto --dist worksteal -m "not nightly"

theory: ## check the theorems with Coq, run their programs on the test vectors
	@cd spec && $(PYTHON) -m theory

nightly: .venv/test docs ## run and time all tests, repeat numerical tests with different rounding
	$(BIN)/pytest -n auto --dist worksteal --measure
	ATEN_CPU_CAPABILITY=default PYTHONPATH=$(CURDIR)/rounding ROUNDING=1 \
		$(BIN)/pytest -n auto --dist worksteal -m "not nightly" adapters conformance

versions: .venv-versions/ready ## test kernels and the exact lane with the torch and Triton that engines pin
	$(VERSIONS)/python -m pytest adapters/tests/test_kernels.py conformance/tests/lanes/exact \
		-m "not nightly" -k "not compiles" -W "ignore:Conversion of an array with ndim:DeprecationWarning"
	TRITON_INTERPRET=1 $(VERSIONS)/draftproof certify --mode quick \
		torch-token torch-block torch-multipath-block triton-token triton-block triton-multipath-block

define STYLE
$(BIN)/ruff check
$(BIN)/ruff format --check
$(BIN)/mypy
for room in spec reference conformance adapters docs; do $(BIN)/mypy $$room/tests || exit; done
endef

docs: .venv/docs docs/node_modules ## build the site in the folder site
	cd docs && NO_MKDOCS_2_WARNING=1 ../$(BIN)/python -m building

bench: .venv/test ## measure the stated speeds
	DRAFTPROOF_DRAWS=$${DRAFTPROOF_DRAWS:-60} DRAFTPROOF_MODELS=$${DRAFTPROOF_MODELS:-12} \
		$(BIN)/pytest reference/benchmarks conformance/benchmarks --benchmark-only
	$(BIN)/python adapters/benchmarks/cpu.py
	$(BIN)/python adapters/benchmarks/decoding.py

# PYTHON has a torch for the GPU, and the engines to compare with.
MINUTES ?= 30

gpu: ## check and time the fast verifiers on a GPU, with the torch of PYTHON
	@$(PYTHON) -c 'from importlib.metadata import version as v; v("draftproof"), v("triton")' || \
		{ echo 'make gpu needs draftproof beside a torch for CUDA: $(PYTHON) -m pip install --editable ".[triton,report]"'; exit 1; }
	PYTHONPATH=spec:reference:conformance:adapters:docs $(PYTHON) adapters/benchmarks/gpu.py --minutes $(MINUTES)

certificates: .venv/test ## certify the fast verifiers again if they have changed
	$(BIN)/python adapters/certificates/fast.py

matrix: .venv/engines ## judge released verifiers again, compare with the record
	$(BIN)/draftproof matrix --output matrix --jobs 2 --check adapters/matrix/matrix.json

engines: .venv/test ## judge released engines by their output, each in its own environment
	$(BIN)/python adapters/whole/judge.py

UV := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate \
	--no-header --constraint constraints.txt

locks: .venv/lock ## pin the packages that the GitHub Action installs, with all hashes
	$(UV) --output-file locks/builder.txt locks/builder.in
	$(UV) --output-file locks/draftproof.txt --config-file locks/uv.toml --all-extras pyproject.toml
	for engine in mlx openvino transformers vllm; do \
		$(BIN)/uv pip compile --quiet --python-version 3.11 --python-platform x86_64-manylinux_2_35 \
			--generate-hashes --no-annotate --no-header --config-file locks/uv.toml --no-emit-package torch \
			--override adapters/whole/locks/leave_out.txt \
			--output-file adapters/whole/locks/$$engine.txt adapters/whole/locks/$$engine.in || exit; done

clean: ## delete the virtual environments and all caches
	rm -rf build/theory .venv .venv-versions .mypy_cache .pytest_cache .ruff_cache .hypothesis .benchmarks
	rm -rf docs/.pages docs/node_modules site

.venv/certify: pyproject.toml constraints.txt | .venv/pip
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[transformers]'
	@touch $@

.venv/engines: pyproject.toml constraints.txt | .venv/pip
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[engines]'
	@touch $@

.venv/docs: pyproject.toml constraints.txt | .venv/pip
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[triton,search]' --group docs
	@touch $@

# The build copies all scripts and fonts into the site, so that pages load nothing from elsewhere.
docs/node_modules: docs/package-lock.json
	@command -v npm > /dev/null || { echo 'the site needs npm, which comes with Node.js'; exit 1; }
	npm ci --prefix docs --ignore-scripts --no-audit --no-fund --loglevel error
	@touch $@

.venv/test: pyproject.toml constraints.txt | .venv/pip
	$(BIN)/pip install --quiet --constraint constraints.txt \
		--editable '.[triton,checkpoint,prove,search,report,dask]' --group dev
	@touch $@ .venv/certify .venv/docs

.venv/lock: pyproject.toml constraints.txt | .venv/pip
	$(BIN)/pip install --quiet --constraint constraints.txt --group lock
	@touch $@

# The oldest torch and Triton that pyproject.toml allows, which vLLM and SGLang pin; all other versions are unchanged.
PYTHON312 ?= python3.12
VERSIONS := .venv-versions/bin

.venv-versions/ready: pyproject.toml constraints.txt versions.txt
	@$(PYTHON312) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 12))' 2> /dev/null || \
		{ echo 'make versions needs Python 3.12: make versions PYTHON312=/path/to/python3.12'; exit 1; }
	$(PYTHON312) -m venv .venv-versions
	grep -vE '^(numpy|torch|triton)==' constraints.txt | cat - versions.txt > .venv-versions/constraints.txt
	$(VERSIONS)/pip install --quiet --upgrade --constraint .venv-versions/constraints.txt pip
	$(VERSIONS)/pip install --quiet --constraint .venv-versions/constraints.txt \
		--editable '.[triton,checkpoint,prove,search,report]' --group test
	@touch $@

# Older versions of pip do not support dependency groups.
.venv/pip: constraints.txt | .venv/bin/python
	$(BIN)/pip install --quiet --upgrade --constraint constraints.txt pip
	@touch $@

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo 'draftproof needs Python 3.11 or newer: make PYTHON=python3.11'; exit 1; }
	$(PYTHON) -m venv .venv
