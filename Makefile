# The front door: each target does its own set-up. CMake does the work (CMakePresets.json).
PREFIX ?= /usr/local
FUZZ_SECONDS ?= 60
.PHONY: help build demo test test-pages test-python wheel arm install dist bench fuzz kill format clean setup mujoco mujoco-if-possible cuda test-cuda test-cuda-short defects

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup:
	@scripts/setup.sh build

build/build.ninja: | setup
	@cmake --preset release --log-level=WARNING >/dev/null

build: setup build/build.ninja ## the program build/firm, libfirm.so, libfirm.a and the example
	@cmake --build --preset release --target firm firm_shared firm_archive firm_pages control_loop

demo: setup build/build.ninja ## the shipped model plans to a goal image; prints the page to open
	@echo "building build/firm"
	@cmake --build --preset release --target firm -- --quiet
	@build/firm demo tworoom $(DEMO_FLAGS)

mujoco: ## fetches what Reacher and Cube need (85 MB, once); the next build has them
	@scripts/setup-mujoco.sh

test: ## all tests, again with sanitizers; ends with the sum (six to nine minutes on two free cores)
	@scripts/setup.sh test
	@$(MAKE) --no-print-directory mujoco-if-possible
	@scripts/test.sh

test-pages: ## the demo's pages in headless Chromium, on a desk and on a phone (three minutes; not part of make test)
	@scripts/setup.sh pages
	@$(MAKE) --no-print-directory mujoco-if-possible build/build.ninja
	@cmake --build --preset release --target firm -- --quiet
	@scripts/test-pages.py build/firm build/pages

test-python: ## the Python package: installed into build-python/venv, all its tests (the short form is part of make test)
	@scripts/test-python.sh

wheel: mujoco-if-possible ## a wheel of the Python package that needs libc and libm alone, into build-python/dist
	@scripts/wheel.sh

arm: ## libfirm and its tests for 64-bit ARM into build-arm, run under qemu (minutes; not part of make test)
	@scripts/setup.sh arm
	@scripts/test.sh arm

mujoco-if-possible:
	@scripts/setup-mujoco.sh || echo "test: going on without Reacher and Cube; their tests are skipped"

cuda: setup ## build-cuda/firm with the CUDA backend and the GPU planner (needs nvcc)
	@cmake --preset cuda --log-level=WARNING >/dev/null
	@cmake --build --preset cuda --target firm firm_tests

test-cuda: mujoco-if-possible cuda ## what needs a GPU: kernels, executor and training against the host (under five minutes)
	@scripts/test-cuda.sh tests

test-cuda-short: mujoco-if-possible cuda ## a short form of it under compute-sanitizer's memcheck and racecheck
	@scripts/test-cuda.sh memcheck racecheck

install: build ## header, libraries, pkg-config and CMake files, program, man page and completion into PREFIX (/usr/local)
	@cmake --install build --prefix "$(abspath $(PREFIX))"

dist: setup ## build/firm-VERSION.tar.gz of the last commit, tried: it builds without git
	@scripts/dist.sh

bench: setup build/build.ninja ## speed of planner, training, simulator and renderer
	@cmake --build --preset release --target firm -- --quiet
	@for part in plan train env render; do build/firm bench $$part tworoom || exit $$?; done

fuzz: ## fuzzes the file parsers with clang, FUZZ_SECONDS (60) for each of ten targets, one per core
	@scripts/setup.sh fuzz
	@scripts/fuzz.sh $(FUZZ_SECONDS)

defects: ## tries the tests with the seeded defects of tests/defects.txt, one after the other (hours; goes on where it was)
	@scripts/defects.py

kill: setup build/build.ninja ## kills the program at random moments and checks that nothing is lost (some minutes)
	@cmake --build --preset release --target firm -- --quiet
	@scripts/kill.py

format: ## clang-format over our sources
	@scripts/setup.sh format
	@find include src tests examples fuzz bench -name '*.[ch]' -print0 | xargs -0 clang-format -i

clean: ## removes what make built
	rm -rf build build-tests build-debug build-python build-asan build-tsan build-fuzz build-cuda build-arm build-defects demo
