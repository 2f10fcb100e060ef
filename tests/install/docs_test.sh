#!/usr/bin/env bash
# docs_test.sh PROGRAM SOURCE - the documents tell the truth where a script can check it: every command
# and flag of the program is in docs/commands.md and no other, paths exist, no cell of a table waits for
# its number, and what scripts/check-docs.py says of sentences, links, terms and figures.
set -uo pipefail
program=$1 source=$2
cd "$source" || exit 1
status=0
complain() { echo "$*"; status=1; }

# commands and flags, both ways
commands=$("$program" --help | sed -n 's/^  firm \([a-z]*\) .*/\1/p' | grep -v '^help$' | sort -u)
[ "$(wc -l <<<"$commands")" -ge 10 ] || complain "the program's list of commands was not understood"
documented=$(sed -n 's/^## firm \([a-z]*\).*/\1/p' docs/commands.md | sort -u)
diff <(echo "$commands") <(echo "$documented") || complain "docs/commands.md has other commands (>) than the program (<)"
flags() { grep -oE -- '--[a-z][a-z-]*' | sort -u; }
common=$(sed -n '/^Every command takes/,/^## /p' docs/commands.md | flags)
for command in $commands; do
    known=$("$program" help "$command" | flags)
    section=$(awk -v head="## firm $command" 'index($0, "## ") == 1 { on = ($0 == head || index($0, head " ") == 1) } on' docs/commands.md)
    for flag in $known; do
        grep -qxF -- "$flag" <<<"$common"$'\n'"$(flags <<<"$section")" || complain "docs/commands.md: firm $command lacks $flag"
    done
    # the text may speak of another command's flag, so only the tables are held to it
    for flag in $(grep '^|' <<<"$section" | flags); do
        grep -qxF -- "$flag" <<<"$known" || complain "docs/commands.md: firm $command has no $flag"
    done
done

for file in README.md CONTRIBUTING.md docs/*.md; do
    if grep -nE '@@[A-Z0-9_]+@@' "$file"; then complain "$file: numbers are missing"; fi
done

# sentences, links, terms and figures; sentences and terms of the help texts
python3 scripts/check-docs.py --program "$program" || complain "scripts/check-docs.py found the above"
# a figure that is off by one in its last digit is noticed
python3 scripts/check-docs.py --try || complain "scripts/check-docs.py would not notice that the above are wrong"

# the tables that are kept are those of the results that are kept
kept=docs/results
made=$(mktemp)
"$program" report "$kept" --markdown "$made" --quiet >/dev/null || complain "firm report cannot read $kept"
diff -q "$made" "$kept/report.md" >/dev/null ||
    complain "$kept/report.md is not what the results say; make it again: firm report $kept --markdown $kept/report.md"
rm -f "$made"

# the tree map, and source files named in the documents
for path in $(sed -n '/^include\/firm.h/,/^```/p' docs/tour.md | grep -oE '^[a-z]+/[a-z./]*'); do
    [ -e "$path" ] || complain "docs/tour.md: $path does not exist"
done
for path in $(grep -ohE '`(src|tests|scripts|configs|fuzz|bench|cmake|examples|include)/[A-Za-z0-9_./-]+`' README.md CONTRIBUTING.md docs/*.md | tr -d '`' | sort -u); do
    case $path in *NAME* | *TASK*) continue ;; esac
    [ -e "$path" ] || complain "the documents name $path, which does not exist"
done

# functions named in the tour
for name in $(grep -oE '`[a-z_]+\(\)`' docs/tour.md | tr -d '`()' | sort -u); do
    grep -rqE "\b$name\(" src include || complain "docs/tour.md: there is no function $name()"
done
[ "$status" -eq 0 ] && echo "commands, flags, links, paths and functions of the documents are there"
exit $status
