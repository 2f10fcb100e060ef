#!/usr/bin/env bash
# new_task_test.sh CMAKE BUILD SOURCE - a new task of the program's own is one source file, one settings file and
# one line: adds the example to a copy of the tree, builds it, and runs the program and the tests that go
# through all tasks.
#
# What is not changed is not compiled again: make, unlike ninja, judges by times alone, so BUILD's objects, copied after the
# sources, are up to date. Compiled are the new file, the changed one and the texts that are built in.
set -euo pipefail
cmake=$1 built=$2 source=$3
command -v make >/dev/null || { echo "make is not there"; exit 77; }

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
tree=$folder/tree
mkdir "$tree"
(cd "$source" && cp -r CMakeLists.txt cmake configs examples fuzz bench include models src tests "$tree" && { [ ! -d third_party ] || ln -s "$source/third_party" "$tree"; })

cd "$tree"
mkdir -p src/env/tasks
cp examples/tasks/pendulum.c src/env/tasks/pendulum.c
cp configs/tworoom.ini configs/pendulum.ini
printf '\n[model]\ngrid = 6\n' >>configs/pendulum.ini  # its pictures have 96 pixels a side
"$cmake" -G "Unix Makefiles" -S . -B build -DCMAKE_BUILD_TYPE=Release >/dev/null
(cd "$built" && find CMakeFiles -name '*.c.o' -print0 | tar -c --null -T - -m) | tar -x -m -C build
sed -i 's/^#define COMPILED(X)$/#define COMPILED(X) X(pendulum)/' src/env/env.c
grep -q 'COMPILED(X) X(pendulum)' src/env/env.c || { echo "src/env/env.c: the list of compiled tasks was not found"; exit 1; }

"$cmake" --build build --target firm firm_tests >build.txt || { tail -30 build.txt; exit 1; }
compiled=$(grep -c 'Building C object' build.txt)
[ "$compiled" -lt 20 ] || { echo "$compiled files were compiled"; exit 1; }
build/firm tasks pendulum | grep -q 'turn a pendulum' || { echo "firm tasks does not describe the new task"; exit 1; }
build/firm tasks | grep -q '^pendulum' || { echo "firm tasks does not list the new task"; exit 1; }
build/firm check pendulum
build/firm params pendulum --quiet
FIRM_TEST_SHORT=1 build/firm_tests task/ model/tasks model/modules env/no_task env/plugin
