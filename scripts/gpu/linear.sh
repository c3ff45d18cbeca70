#!/bin/bash
# The kernels of linear attention on one GPU: checked, under the memory checkers, and timed beside
# flash-linear-attention's (FLA_DIR; scripts/gpu/pack_fla.sh) as one JSON record.
# scripts/gpu/linear.sh OUT_DIR [PARTS]   PARTS: any of check,checkers,peers; all by default.
set -uo pipefail
out=$1
parts=${2:-check,checkers,peers}
wants() { [[ ",$parts," == *",$1,"* ]]; }
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=scripts/gpu/environment.sh disable=SC1091,SC2154
source scripts/gpu/environment.sh
if wants checkers; then need compute-sanitizer; fi
mkdir -p "$out"
step() { echo "== $1 ($SECONDS s)"; }

if wants check; then
  step check
  timeout -k 2 120 tiles --only linear --cases 200 --threads 14 >"$out/linear-tiles.txt" 2>&1
  echo "rc $?"
  tail -40 "$out/linear-tiles.txt" | cut -c1-200
fi
if wants checkers; then
  step checkers
  for tool in memcheck racecheck; do
    timeout -k 2 100 compute-sanitizer --tool $tool --error-exitcode 9 tiles --alone --only linear --cases 12 --threads 1 \
      >"$out/linear-$tool.txt" 2>&1
    echo "$tool rc $?: $(tail -1 "$out/linear-$tool.txt")"
  done
fi
if wants peers; then
  step peers
  # Theirs is tuned by Triton for a minute or two for every value size; --shapes takes a part.
  timeout -k 2 "${PEERS_SECONDS:-560}" python3 scripts/peer_linear_attention.py --ours "$(command -v tiles)" --rounds 7 \
    --out "$out/linear-attention.json"
  echo "rc $?"
fi
step end
