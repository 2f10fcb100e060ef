#!/usr/bin/env bash
# carry.sh - the program with everything it needs at run time but the C library, as one archive for a machine where nothing can be installed.
#
#     scripts/carry.sh [BUILD [FILE.tgz]]        (build, BUILD/carry.tgz)
#
# There, with a C library at least as new as here (`ldd --version`):
#
#     mkdir -p carry && tar -xzf carry.tgz -C carry
#     carry/run eval cube ...                    or: FIRM=carry/run scripts/cube-ceiling.sh OUT
#
# bin/firm, lib/*.so of HDF5, Chipmunk, MuJoCo and what these need, and libfirm-cuda.so, share/firm/scenes. No models: those of models/ are found by --model.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build} file=${2:-${1:-build}/carry.tgz}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir -p "$folder/bin" "$folder/lib" "$folder/share/firm"
cp "$build/firm" "$folder/bin/firm"
ldd "$build/firm" | awk '$3 ~ /^\// {print $3}' | while read -r library; do
    case $(basename "$library") in
        libcu*.so.*) ;; # of CUDA, which comes with the machine that has the GPU
        libc.so.* | libm.so.* | libdl.so.* | libpthread.so.* | librt.so.* | libresolv.so.* | libgcc_s.so.* | libstdc++.so.*) ;; # of the system
        *) cp -L "$library" "$folder/lib/" ;;
    esac
done
strip -S "$folder/bin/firm"
[ ! -e "$build/libfirm-cuda.so.0" ] || { cp -L "$build/libfirm-cuda.so.0" "$folder/lib/" && strip -S "$folder/lib/libfirm-cuda.so.0"; }
# of the manipulation scenes the parts that Cube is made of
mkdir -p "$folder/share/firm/scenes/manipspace"
cp -r third_party/scenes/reacher "$folder/share/firm/scenes/"
cp -r third_party/scenes/manipspace/{floor_wall.xml,cube_inner.xml,cube_outer.xml,universal_robots_ur5e,robotiq_2f85} "$folder/share/firm/scenes/manipspace/"
cat >"$folder/run" <<'RUN'
#!/bin/sh
here=$(cd "$(dirname "$0")" && pwd)
LD_LIBRARY_PATH=$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} FIRM_MODELS_DIR=$here/share/firm/scenes exec "$here/bin/firm" "$@"
RUN
chmod +x "$folder/run"
tar -czf "$file" -C "$folder" .
echo "$file: $(stat -c %s "$file") bytes; needs glibc $(objdump -T "$folder"/bin/firm "$folder"/lib/*.so* | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -1 | cut -d_ -f2) or newer"
