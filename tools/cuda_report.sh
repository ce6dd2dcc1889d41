#!/bin/sh
# Runs a prebuilt test binary of the tag cuda on this machine and writes what it says, below the
# device's name, into a report. Without a GPU the report says "not measured" and all is well.
#     tools/cuda_report.sh REPORT LIMIT BINARY TEST-PATTERN [COMMAND...]
# COMMAND, if any, runs afterwards, and its output ends the report.
set -eu
report=$1 limit=$2 binary=$3 pattern=$4
shift 4
mkdir -p "$(dirname "$report")"
{
    echo "# $(basename "$report" .md), $(date -u +%Y-%m-%d)"
    echo
    if ! command -v nvidia-smi >/dev/null 2>&1 || ! nvidia-smi -L 2>/dev/null | grep -q GPU; then
        echo "Device: none; not measured. The binary was started to see that it runs."
    else
        nvidia-smi --query-gpu=name,driver_version,memory.total,power.limit --format=csv
    fi
    echo
} >"$report"
# PyTorch's wheels bring cuBLASLt where CUDA itself is not installed.
libraries=$(python3 -c 'import glob, sysconfig; print(":".join(glob.glob(sysconfig.get_path("purelib") + "/nvidia/*/lib")))' 2>/dev/null || true)
status=0
LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$libraries:$(dirname "$binary")/lib" "$binary" -test.v -test.timeout "$limit" -test.run "$pattern" >>"$report" 2>&1 || status=$?
if [ $status = 0 ] && [ $# -gt 0 ]; then
    "$@" >>"$report" 2>&1 || status=$?
fi
cat "$report"
exit $status
