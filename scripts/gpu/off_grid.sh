#!/bin/bash
# Predictions where nobody tuned: points drawn from a seed are predicted, then run, on one machine in one run.
# scripts/gpu/off_grid.sh OUT_DIR [ARGUMENTS of off_grid.py: --seed N --points N --hardware FILE ...]
# Leaves OUT_DIR/predicted.json (before anything runs), record.json, table.md and runs.tar.gz.
set -uo pipefail
out=$(realpath -m "$1")
shift
mkdir -p "$out"
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=scripts/gpu/environment.sh disable=SC1091,SC2154
source scripts/gpu/environment.sh
# shellcheck disable=SC2154
python3 scripts/gpu/off_grid.py campaign "$out" --work "$results" "$@" 2>&1 | tee "$results/campaign.txt"
code=${PIPESTATUS[0]}
tar czf "$out/runs.tar.gz" -C "$results" .
exit "$code"
