#!/bin/bash
# Runs unmodified clients against real servers (bin/prefillonly), a group of clients at a time: tools/clients/run.sh [GROUP...],
# all of them by default but those whose packages have torch (5 GB), which are run by name. A group is a directory here: its run.sh
# serves what it needs and holds the clients to it (group.bash says what it finds there), and says "N checks passed" of each client.
# The last lines say which groups ran, with how many checks. Ends with 69 where none failed and some could not be fetched.
set -uo pipefail
cd "$(dirname "$0")/../.."
mkdir -p build/clients/logs
every=$(cd tools/clients && printf '%s\n' */run.sh | xargs -n 1 dirname)
heavy=$(cd tools/clients && grep -l '^torch' */requirements.txt | xargs -r -n 1 dirname)
[ $# -gt 0 ] || set -- $(comm -23 <(sort <<<"$every") <(sort <<<"$heavy"))

summary=() failed=() absent=() total=0
for group in "$@"; do
    log=build/clients/logs/$group.log began=$SECONDS said=
    echo "== $group"
    "tools/clients/$group/run.sh" 2>&1 | tee "$log"
    rc=${PIPESTATUS[0]}
    checks=$(grep -oE '[0-9]+ checks passed' "$log" | awk '{n += $1} END {print n + 0}')
    if [ "$rc" = 69 ]; then
        absent+=("$group")
    elif [ "$rc" != 0 ]; then
        said=" FAILED" && failed+=("$group")
    elif [ "$checks" = 0 ]; then
        said=" FAILED: no checks" && failed+=("$group")
    fi
    total=$((total + checks))
    summary+=("$(printf '%-18s %4d checks %4d s%s%s' "$group" "$checks" $((SECONDS - began)) "$said" "$(grep -oE '^[^:]*: not run.*' "$log" | sed 's/^/; /')")")
done
echo "== summary"
printf '%s\n' "${summary[@]}"
for group in $heavy; do [[ " $* " = *" $group "* ]] || echo "$group: left out, it needs torch: tools/clients/run.sh $group"; done
echo "$# groups of clients, $total checks in $((SECONDS / 60)) min $((SECONDS % 60)) s${failed[*]:+; FAILED: ${failed[*]}}${absent[*]:+; not run: ${absent[*]}}"
[ ${#failed[@]} = 0 ] || exit 1
[ ${#absent[@]} = 0 ] || exit 69
