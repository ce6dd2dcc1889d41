#!/bin/bash
# Runs unmodified clients against real servers (bin/prefillonly), a group of clients at a time: tools/clients/run.sh [GROUP...],
# all of them by default. A group is a directory here: its run.sh serves what it needs and holds the clients to it (group.bash says
# what it finds there), and says "N checks passed" of each client. The last lines say which groups ran, with how many checks.
set -uo pipefail
cd "$(dirname "$0")/../.."
mkdir -p build/clients/logs
[ $# -gt 0 ] || set -- $(cd tools/clients && printf '%s\n' */run.sh | xargs -n 1 dirname)

summary=() failed=() total=0
for group in "$@"; do
    log=build/clients/logs/$group.log began=$SECONDS said=
    echo "== $group"
    "tools/clients/$group/run.sh" 2>&1 | tee "$log" || { said=" FAILED" && failed+=("$group"); }
    checks=$(grep -oE '[0-9]+ checks passed' "$log" | awk '{n += $1} END {print n + 0}')
    if [ -z "$said" ] && [ "$checks" = 0 ]; then said=" FAILED: no checks" && failed+=("$group"); fi
    total=$((total + checks))
    summary+=("$(printf '%-18s %4d checks %4d s%s%s' "$group" "$checks" $((SECONDS - began)) "$said" "$(grep -oE '^[^:]*: not run.*' "$log" | sed 's/^/; /')")")
done
echo "== summary"
printf '%s\n' "${summary[@]}"
echo "$# groups of clients, $total checks in $((SECONDS / 60)) min $((SECONDS % 60)) s${failed[*]:+; FAILED: ${failed[*]}}"
[ ${#failed[@]} = 0 ]
