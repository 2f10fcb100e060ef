# cube_rows.sh - how a model becomes a row: what cube_ensembles.sh and cube_distil.sh share; they source it and set firm, device and rows (the file that lines go to).
# shellcheck shell=bash disable=SC2154,SC2086

gate() { "$@" || [ $? = 1 ]; } # exit 1: a gate was missed, which the result says

# Contract mode on the pairs of t.h5: prints one line and appends it to the file.
compact='
import json, sys
name, command, path = sys.argv[1:]
e = json.load(open(path))
a = e["arms"]["firm"]
keep = {k: e[k] for k in ("trials", "unsolved_only", "offset", "mode", "members", "trials_hash", "data_hash", "plan")}
keep |= {"successes": a["successes"], "rate": a["success_rate"], "ci95": a["ci95"], "ms_per_solve": a["ms_per_solve"]}
keep["outcomes"] = "".join(str(x) for x in a["outcomes"])
print(json.dumps({"row": name, "command": command} | keep, separators=(",", ":")))
'
row() { # name model settings...
    local name=$1 line="cube --model $2 --trials-file t.h5 --mode contract --device $device --precision fp32 ${*:3}"
    $firm eval $line -o "eval-$name.json" --quiet >/dev/null
    python3 -c "$compact" "$name" "firm eval $line" "eval-$name.json" | flock lock tee -a $rows
}
