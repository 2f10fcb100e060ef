#!/usr/bin/env bash
# example_test.sh PROGRAM MODEL - the example reaches its goal with the shipped model, twice alike.
set -euo pipefail
program=$1 model=$2

# no deadline (0): what is found then does not depend on the machine's speed
first=$("$program" "$model" 0)
second=$("$program" "$model" 0)
tail -n 3 <<<"$first"
controls=$(sed -n 's/^reached after \([0-9]*\) controls$/\1/p' <<<"$first")
[ -n "$controls" ] || { echo "it did not say that the goal was reached"; exit 1; }
# the goal is 75 px away, a control moves 7.1 px at most and 16 px is near enough: a model that sees
# what there is needs nine
[ "$controls" -ge 9 ] || { echo "reached after $controls controls, which cannot be"; exit 1; }
strip() { sed 's/ *[0-9.]* ms$//' <<<"$1"; }
[ "$(strip "$first")" = "$(strip "$second")" ] || { echo "two runs with one seed differ"; exit 1; }
