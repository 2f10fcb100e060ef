#!/usr/bin/env bash
# pages_test.sh PROGRAM BUILD - the man page and the shells' completion know every command and every
# flag that the program's own help knows, and are written without mistakes.
set -uo pipefail
program=$1 build=$2
status=0
complain() { echo "$*"; status=1; }

commands=$("$program" --help | sed -n 's/^  firm \([a-z]*\) .*/\1/p' | grep -v '^help$' | sort -u)
[ "$(wc -l <<<"$commands")" -ge 10 ] || complain "the program's list of commands was not understood"
flags_of() { "$program" help "$1" | grep -oE '^  (-[a-z], )?--[a-z][a-z-]*' | grep -oE -- '-(-[a-z-]+|[a-z]\b)' | sort -u; }

# what is installed is what the program says
for page in "firm.1 --man" "firm.bash --completion bash" "firm.zsh --completion zsh"; do
    read -r file arguments <<<"$page"
    # shellcheck disable=SC2086
    cmp -s "$build/$file" <("$program" $arguments) || complain "$file is not what firm $arguments says"
done
"$program" --completion fish >/dev/null 2>&1 && complain "firm --completion fish should fail"

# bash: ask the completion as the shell does
# shellcheck disable=SC1091
source "$build/firm.bash"
offered() {  # words of the line; the last is the one to complete
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
    _firm
    printf '%s\n' "${COMPREPLY[@]}" | sort -u
}
same() {  # what, wanted, offered
    diff <(echo "$2") <(echo "$3") >/dev/null || complain "bash, $1: wanted $(tr '\n' ' ' <<<"$2"), offered $(tr '\n' ' ' <<<"$3")"
}
same "commands" "$( (echo "$commands"; echo help) | sort)" "$(offered firm '' | grep -v '^-')"
for command in $commands; do
    same "flags of $command" "$(flags_of "$command")" "$(offered firm "$command" -)"
done
same "modes" $'contract\nreach' "$(offered firm eval tworoom --mode '')"
same "tasks" "$("$program" tasks | sed -n 's/^\([a-z]\+\) .*/\1/p' | sort -u)" "$(offered firm train '')"
same "parts of bench" $'plan' "$(offered firm bench pl)"

# zsh: the specification of every flag, and no mistake in the language where there is a zsh
for command in $commands; do
    section=$(awk -v head="    $command)" '$0 == head { on = 1 } on; on && /^        ;;$/ { exit }' "$build/firm.zsh")
    for flag in $(flags_of "$command"); do
        grep -qF -- "$flag" <<<"$section" || complain "zsh: firm $command lacks $flag"
    done
    grep -q "^        '$command:" "$build/firm.zsh" || complain "zsh: no command $command"
done
if command -v zsh >/dev/null; then zsh -n "$build/firm.zsh" || complain "zsh does not read firm.zsh"; fi

# man: every command and flag, and no error in the macros where there is something that reads them
shown() { sed 's/\\-/-/g; s/\\f[BIR]//g' "$build/firm.1"; }
for command in $commands; do
    section=$(shown | awk -v head=".SS firm $command" 'index($0, ".S") == 1 { on = ($0 == head || $0 == ".SH OPTIONS OF EVERY COMMAND") } on')
    grep -qxF ".SS firm $command" <<<"$section" || complain "firm.1: no section on firm $command"
    for flag in $(flags_of "$command"); do
        grep -qE -- "^$flag\b|, $flag\b" <<<"$section" || complain "firm.1: firm $command lacks $flag"
    done
done
if command -v mandoc >/dev/null; then
    mandoc -T lint -W error "$build/firm.1" || complain "mandoc finds mistakes in firm.1"
fi
if command -v man >/dev/null; then
    text=$(man --warnings -l "$build/firm.1" 2>&1 >/dev/null)
    [ -z "$text" ] || complain "man: $text"
fi
[ "$status" -eq 0 ] && echo "man page and completion know $(wc -w <<<"$commands") commands and their flags"
exit $status
