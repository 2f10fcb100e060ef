#!/usr/bin/env bash
# cmake_test.sh CMAKE BUILD SOURCE - installs into an empty folder, moves it, and builds the example in
# a project that knows nothing but find_package(firm), against the shared library and the archive.
set -euo pipefail
cmake=$1 build=$2 source=$3

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$cmake" --install "$build" --prefix "$folder/first" >/dev/null
mv "$folder/first" "$folder/moved"
version=$(sed -n 's/^CMAKE_PROJECT_VERSION:[A-Z]*=//p' "$build/CMakeCache.txt")

mkdir "$folder/project"
cp "$source/examples/control_loop.c" "$folder/project/"
cd "$folder/project"
project() {  # version asked for
    cat <<END2
cmake_minimum_required(VERSION 3.18)
project(robot C)
find_package(firm $1 REQUIRED)
add_executable(shared control_loop.c)
target_link_libraries(shared PRIVATE firm::firm m)
add_executable(static control_loop.c)
target_link_libraries(static PRIVATE firm::static)
END2
}
configure() { "$cmake" -S . -B build -DCMAKE_PREFIX_PATH="$folder/moved" >"$folder/log" 2>&1; }
project "$version" >CMakeLists.txt
configure || { cat "$folder/log"; echo "find_package(firm $version) failed"; exit 1; }
"$cmake" --build build >"$folder/log" 2>&1 || { cat "$folder/log"; exit 1; }
if grep -rqF "$folder/first" "$folder/moved/lib"*/cmake; then echo "the package knows where it was installed first"; exit 1; fi

for program in shared static; do
    set +e
    text=$("build/$program" no-such-model.safetensors 2>&1)
    code=$?
    set -e
    if [ "$code" -ne 2 ] || ! grep -q no-such-model <<<"$text"; then
        echo "$program: exit $code, expected 2 and a sentence naming the file: $text"
        exit 1
    fi
done
with_shared=$(ldd build/shared) with_static=$(ldd build/static)
grep -q "libfirm.so.0 => $folder/moved" <<<"$with_shared" || { echo "firm::firm is not libfirm.so: $with_shared"; exit 1; }
if grep -q libfirm <<<"$with_static"; then echo "firm::static is not the archive"; exit 1; fi

# another minor version may differ in what it offers
rm -rf build
project 0.0.1 >CMakeLists.txt
if configure; then echo "find_package(firm 0.0.1) took version $version"; exit 1; fi
grep -q "$version" "$folder/log" || { echo "the refusal does not name version $version"; exit 1; }
echo "find_package(firm $version): firm::firm and firm::static build and run"
