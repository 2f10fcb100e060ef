#!/usr/bin/env bash
# setup.sh - makes sure that the packages a target needs are there; called by the Makefile.
#
#     scripts/setup.sh [build|test|pages|arm|fuzz|format|mujoco]
#
# On Debian and its relatives the missing packages are named and installed with apt-get (as root, or
# through sudo); when nothing is missing, nothing happens and no network is touched. Elsewhere, or
# without the right to install, it goes on as long as the tools and libraries can be found.
set -euo pipefail

target=${1:-build}

# tool:package, needed as a command; whichever package brings it
tools=(cc:gcc cmake:cmake ninja:ninja-build pkg-config:pkg-config ld:binutils)
# package:pkg-config module, needed to compile; an empty module cannot be looked up that way
libraries=(libc6-dev: libhdf5-dev:hdf5 libinih-dev:inih libcjson-dev:libcjson
           libpng-dev:libpng zlib1g-dev:zlib)
# physics of Push-T; without it that task is left out. It brings no pkg-config file
libraries+=(libchipmunk-dev:)
# needed at run time only, to read HDF5 files written with the Blosc filter
plugins=(hdf5-filter-plugin-blosc-serial)

case $target in
    build) ;;
    # libosmesa6: MuJoCo's own renderer in software, to compare ours with; tests without it are skipped
    test) tools+=(c++:g++); plugins+=(libosmesa6) ;;
    pages) tools+=(chromium:chromium python3:python3) ;;
    arm) # the cross compiler and what runs its programs here
        tools=(cmake:cmake ninja:ninja-build aarch64-linux-gnu-gcc:gcc-aarch64-linux-gnu qemu-aarch64:qemu-user)
        libraries=(libc6-dev-arm64-cross:); plugins=() ;;
    fuzz) tools+=(clang:clang); libraries+=(libclang-rt-dev:) ;;
    format) tools=(clang-format:clang-format); libraries=(); plugins=() ;;
    mujoco) # to fetch and unpack wheels; a python3 that is there may have pip from elsewhere
        tools=(python3:python3); libraries=(); plugins=()
        python3 -m pip --version >/dev/null 2>&1 || plugins=(python3-pip) ;;
    *) echo "setup: unknown target '$target'; one of: build test pages arm fuzz format mujoco" >&2; exit 2 ;;
esac

missing=()
for entry in "${tools[@]}"; do
    command -v "${entry%%:*}" >/dev/null || missing+=("${entry#*:}")
done

debian=
command -v apt-get >/dev/null && command -v dpkg-query >/dev/null && debian=1
packages=("${libraries[@]%%:*}" "${plugins[@]}")
if [ -n "$debian" ] && [ ${#packages[@]} -gt 0 ]; then
    # one query for all of them; it fails when any is unknown, which the loop below finds out
    installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "${packages[@]}" 2>/dev/null || true)
    for package in "${packages[@]}"; do
        case $'\n'$installed$'\n' in
            *$'\n'"installed $package"$'\n'*) ;;
            *) missing+=("$package") ;;
        esac
    done
fi

# without packages to ask about: can the compiler find the libraries?
findable() {
    local entry
    for entry in "${tools[@]}"; do
        command -v "${entry%%:*}" >/dev/null || { echo "the command ${entry%%:*}"; return 1; }
    done
    for entry in "${libraries[@]}"; do
        [ -n "${entry#*:}" ] || continue
        pkg-config --exists "${entry#*:}" || { echo "the library ${entry#*:}"; return 1; }
    done
}

if [ -n "$debian" ]; then
    [ ${#missing[@]} -gt 0 ] || exit 0
    as_root=()
    if [ "$(id -u)" -eq 0 ]; then
        can_install=1
    elif command -v sudo >/dev/null; then
        can_install=1
        as_root=(sudo)
    else
        can_install=
    fi
    if [ -n "$can_install" ]; then
        echo "setup: installing ${missing[*]}"
        apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0)
        "${apt[@]}" update || echo "setup: the package lists could not all be refreshed; going on with those there are" >&2
        log=$(mktemp)
        trap 'rm -f "$log"' EXIT
        if ! "${apt[@]}" install -y --no-install-recommends "${missing[@]}" >"$log" 2>&1; then
            cat "$log" >&2
            echo "setup: apt-get could not install: ${missing[*]}" >&2
            exit 2
        fi
        echo "setup: done"
        exit 0
    fi
    echo "setup: missing packages: ${missing[*]}" >&2
    echo "setup: as root: apt-get install ${missing[*]}" >&2
else
    echo "setup: not a Debian system; needed are the equivalents of: ${tools[*]#*:} ${packages[*]}"
fi

if lacking=$(findable); then
    echo "setup: the tools and libraries were found; going on"
else
    echo "setup: $lacking was not found; install it and try again" >&2
    exit 2
fi
