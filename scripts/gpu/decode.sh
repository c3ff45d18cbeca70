#!/bin/bash
# Decoding on one GPU: kernels for few queries checked and timed, beside PyTorch's. scripts/gpu/decode.sh OUT_DIR [PARTS]
# PARTS: any of check,verify,bench,times,peers,checkers; all by default. Forecasts, made before: scripts/decode_times.py.
set -uo pipefail
out=$(mkdir -p "$1" && realpath "$1")
parts=${2:-check,verify,bench,times,peers,checkers}
wants() { [[ ",$parts," == *",$1,"* ]]; }
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=scripts/gpu/environment.sh disable=SC1091,SC2154
source scripts/gpu/environment.sh
if wants checkers; then need compute-sanitizer; fi
step() { echo "== $1 ($SECONDS s)"; }
machine >"$out/nvidia-smi.txt"
cat "$out/nvidia-smi.txt"

if wants check; then
  step check
  timeout -k 2 100 tiles --only attend --few-queries --cases "${CASES:-128}" --threads 14 >"$out/tiles.txt" 2>&1
  echo "rc $?"
  tail -16 "$out/tiles.txt" | cut -c1-200
fi
if wants verify; then
  step verify
  timeout -k 2 150 python3 scripts/decode_times.py verify "$out/verify.json"
  echo "rc $?"
  timeout -k 2 60 python3 scripts/forms_table.py "$(command -v cplab)" --verify gpu "$out/forms.json" --forms 576
  echo "rc $?: $(cut -c1-300 "$out/forms.json" | tr -d '\n' | cut -c1-300)"
fi
if wants bench; then
  step bench
  timeout -k 2 60 tiles --bench --only decode >"$out/bench.txt" 2>&1
  echo "rc $?"
  cat "$out/bench.txt"
fi
if wants times; then
  step times
  python3 scripts/decode_times.py run "$out"
fi
if wants peers; then
  step peers
  python3 scripts/decode_times.py problems | while read -r problem; do
    # shellcheck disable=SC2086
    timeout -k 2 60 python3 scripts/peer_decode.py "$out" $problem
  done
fi
if wants checkers; then
  step checkers
  for tool in memcheck racecheck; do
    timeout -k 2 120 compute-sanitizer --tool $tool --error-exitcode 9 \
      tiles --only attend --few-queries --alone --cases 10 --threads 1 >"$out/$tool.txt" 2>&1
    echo "$tool: rc $?: $(tail -1 "$out/$tool.txt")"
  done
fi
step end
