#!/bin/bash
# Draw the paper's tables and figures anew into bench/results. About a quarter of an hour.
set -euo pipefail
cd "$(dirname "$0")/../.."
bin/prefillonly simulate table-5.2 figure-5.3 figure-5.4 figure-5.5 figure-5.6 figure-5.7 preemption flood host-tier merging swaps cameras stages \
  --out bench/results
bin/prefillonly simulate feeds --repeats 2 --out bench/results
