#!/usr/bin/env bash
# dist.sh - makes build/firm-VERSION.tar.gz of the last commit, and tries it: unpacked in an empty folder, without git, it has to
# build, know its commit, and plan. `make dist` calls it.
set -euo pipefail
cd "$(dirname "$0")/.."
git rev-parse --git-dir >/dev/null 2>&1 || { echo "dist: this is no git repository; an archive is made from one" >&2; exit 2; }
version=$(sed -n 's/^project(firm VERSION \([0-9.]*\) .*/\1/p' CMakeLists.txt)
name=firm-$version
commit=$(git rev-parse --short=12 HEAD)
git diff-index --quiet HEAD -- || echo "dist: the working tree has changes that the archive lacks"
mkdir -p build
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# a second archive with one file, joined: git archive adds files that are no part of a commit only in newer versions
mkdir "$folder/$name"
echo "$commit" >"$folder/$name/COMMIT"
git archive --format=tar --prefix="$name/" -o "$folder/$name.tar" HEAD
tar -rf "$folder/$name.tar" -C "$folder" --owner=0 --group=0 --mtime="@$(git log -1 --format=%ct)" "$name/COMMIT"
rm -r "${folder:?}/$name"
gzip -n "$folder/$name.tar"

tar -xzf "$folder/$name.tar.gz" -C "$folder"
(
    cd "$folder/$name"
    export GIT_DIR=/nonexistent  # whatever lies above the folder
    cmake --preset release --log-level=WARNING >/dev/null
    cmake --build --preset release --target firm -- --quiet
    build/firm --version | tee version.txt
    grep -qx "commit $commit" version.txt || { echo "dist: the program does not know its commit" >&2; exit 1; }
    build/firm demo --trials 0 --quiet -o page >/dev/null
)
mv "$folder/$name.tar.gz" "build/$name.tar.gz"
echo "build/$name.tar.gz: $(stat -c %s "build/$name.tar.gz") bytes, builds without git"
