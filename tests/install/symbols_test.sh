#!/usr/bin/env bash
# symbols_test.sh HEADER SHARED ARCHIVE [--write] - both libraries offer exactly the functions of
# firm.h, and what a compiled program relies on is what abi.txt says: the functions with their
# version, and the layout of the structs. --write makes abi.txt anew.
set -euo pipefail
header=$1 shared=$2 archive=$3
here=$(dirname "$0")

declared=$(sed -n 's/^FIRM_API [^(]*\(firm_[a-z_]*\)(.*/\1/p' "$header" | sort)
count=$(wc -l <<<"$declared")
[ "$count" -eq "$(grep -c '^FIRM_API' "$header")" ] || { echo "not every FIRM_API line was understood"; exit 1; }

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
status=0
compare() {  # name, symbols offered
    if ! diff <(echo "$declared") <(echo "$2") >"$folder/difference"; then
        echo "$1 differs from firm.h (< only declared, > only offered):"
        cat "$folder/difference"
        status=1
    else
        echo "$1 offers the $count functions of firm.h and nothing else"
    fi
}
# firm_goal@@FIRM_0; the version's own name is an absolute symbol (A)
versioned=$(nm -D --defined-only "$shared" | awk '$2 != "A" { print $3 }' | LC_ALL=C sort)
compare "$(basename "$shared")" "$(sed 's/@.*//' <<<"$versioned" | sort)"
compare "$(basename "$archive")" "$(nm -g --defined-only "$archive" | awk 'NF == 3 { print $3 }' | sort)"

"${CC:-cc}" -std=c17 -Wall -Wextra -Werror -I"$(dirname "$header")" "$here/abi.c" -o "$folder/abi"
{ "$folder/abi"; echo "$versioned"; } >"$folder/abi.txt"
if [ "${4:-}" = --write ]; then cp "$folder/abi.txt" "$here/abi.txt"; fi
members=$(sed -n '/^typedef struct firm_[a-z_]* {/,/^}/p' "$header" | sed 's|//.*||' | grep -v 'typedef\|^}' | tr -cd ',;' | wc -c)
listed=$(grep -c '^    MEMBER(' "$here/abi.c")
[ "$members" -eq "$listed" ] || { echo "firm.h has $members members of structs, abi.c lists $listed"; status=1; }
if ! diff "$here/abi.txt" "$folder/abi.txt"; then
    echo "what compiled programs rely on has changed (< abi.txt, > now). New functions and members"
    echo "from the reserved room: run this test with --write. Anything else: raise FIRM_ABI."
    status=1
else
    echo "abi.txt holds: $(wc -l <"$here/abi.txt") lines"
fi
exit $status
