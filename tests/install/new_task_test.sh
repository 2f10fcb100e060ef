#!/usr/bin/env bash
# new_task_test.sh CMAKE SOURCE - a new task of the program's own is one source file, one settings file and
# one line: adds the example to a copy of the tree, builds it, and runs the program and the tests that go
# through all tasks.
set -euo pipefail
cmake=$1 source=$2

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
tree=$folder/tree
mkdir "$tree"
(cd "$source" && cp -r CMakeLists.txt cmake configs examples fuzz bench include models src tests "$tree" && { [ ! -d third_party ] || cp -r third_party "$tree"; })

cd "$tree"
mkdir -p src/env/tasks
cp examples/tasks/pendulum.c src/env/tasks/pendulum.c
cp configs/tworoom.ini configs/pendulum.ini
printf '\n[model]\ngrid = 6\n' >>configs/pendulum.ini  # its pictures have 96 pixels a side
sed -i 's/^#define COMPILED(X)$/#define COMPILED(X) X(pendulum)/' src/env/env.c
grep -q 'COMPILED(X) X(pendulum)' src/env/env.c || { echo "src/env/env.c: the list of compiled tasks was not found"; exit 1; }

"$cmake" -G Ninja -S . -B build -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_FLAGS_RELEASE=-O0 "-DFIRM_TEST_FOLDERS=nn;task;env;model;plan" >/dev/null
"$cmake" --build build --target firm firm_tests >build.txt || { tail -30 build.txt; exit 1; }
build/firm tasks pendulum | grep -q 'turn a pendulum' || { echo "firm tasks does not describe the new task"; exit 1; }
build/firm tasks | grep -q '^pendulum' || { echo "firm tasks does not list the new task"; exit 1; }
build/firm check pendulum
build/firm params pendulum --quiet
FIRM_TEST_SHORT=1 build/firm_tests task/ model/tasks model/modules env/no_task env/plugin
