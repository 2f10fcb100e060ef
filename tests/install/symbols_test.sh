#!/usr/bin/env bash
# symbols_test.sh HEADER SHARED ARCHIVE - both libraries offer exactly the functions of firm.h.
set -euo pipefail
header=$1 shared=$2 archive=$3

declared=$(sed -n 's/^FIRM_API [^(]*\(firm_[a-z_]*\)(.*/\1/p' "$header" | sort)
count=$(wc -l <<<"$declared")
[ "$count" -eq "$(grep -c '^FIRM_API' "$header")" ] || { echo "not every FIRM_API line was understood"; exit 1; }

status=0
compare() {  # name, symbols offered
    if ! diff <(echo "$declared") <(echo "$2") >/tmp/firm-symbols.$$; then
        echo "$1 differs from firm.h (< only declared, > only offered):"
        cat /tmp/firm-symbols.$$
        status=1
    else
        echo "$1 offers the $count functions of firm.h and nothing else"
    fi
    rm -f /tmp/firm-symbols.$$
}
compare "$(basename "$shared")" "$(nm -D --defined-only "$shared" | awk '{ print $3 }' | sort)"
compare "$(basename "$archive")" "$(nm -g --defined-only "$archive" | awk 'NF == 3 { print $3 }' | sort)"
exit $status
