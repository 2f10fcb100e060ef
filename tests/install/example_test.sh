#!/usr/bin/env bash
# example_test.sh PROGRAM MODEL - the example reaches its goal with the shipped model, twice alike.
set -euo pipefail
program=$1 model=$2

# no deadline (0): what is found then does not depend on the machine's speed
first=$("$program" "$model" 0)
second=$("$program" "$model" 0)
tail -n 3 <<<"$first"
grep -q '^reached after' <<<"$first" || { echo "it did not say that the goal was reached"; exit 1; }
strip() { sed 's/ *[0-9.]* ms$//' <<<"$1"; }
[ "$(strip "$first")" = "$(strip "$second")" ] || { echo "two runs with one seed differ"; exit 1; }
