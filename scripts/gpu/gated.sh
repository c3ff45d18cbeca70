#!/bin/bash
# Linear attention with transitions of every token on one GPU: its kernels beside the CPU's, under the memory checkers, every
# algorithm's plans against the reference, several ranks on the GPU, and times beside flash-linear-attention's (FLA_DIR;
# scripts/gpu/pack_fla.sh).
# scripts/gpu/gated.sh OUT_DIR [PARTS]   PARTS: any of check,verify,checkers,peers; all by default.
set -uo pipefail
out=$1
parts=${2:-check,verify,checkers,peers}
wants() { [[ ",$parts," == *",$1,"* ]]; }
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=scripts/gpu/environment.sh disable=SC1091,SC2154
source scripts/gpu/environment.sh
if wants checkers; then need compute-sanitizer; fi
mkdir -p "$out"
step() { echo "== $1 ($SECONDS s)"; }

# ALGORITHM PLACEMENT RANKS DTYPE SETTINGS...: one line, the exit code first.
verified() {
  local algorithm=$1 placement=$2 ranks=$3 dtype=$4 said
  shift 4
  said=$(timeout 60 cplab verify affine --quiet --device gpu --ranks-per-gpu "$ranks" --timeout 50 \
    --set parallel.algorithm="$algorithm" --set parallel.placement="$placement" --set parallel.ranks="$ranks" \
    --set problem.dtype="$dtype" --set 'problem.lengths=[300,77,1,150]' "$@" 2>&1)
  echo "rc $? $algorithm $placement P=$ranks $dtype $*: $(tail -1 <<<"$said" | cut -c1-160)"
}
export -f verified

if wants check; then
  step check
  timeout -k 2 100 tiles --only linear_gated --cases 100 --threads 12 >"$out/gated-tiles.txt" 2>&1
  echo "rc $?"
  tail -24 "$out/gated-tiles.txt" | cut -c1-200
fi
if wants verify; then
  step verify
  for dtype in bf16 fp16 fp32; do
    for transition in "head" "column" "matrix" "matrix --set problem.gate=head"; do
      for plan in "affine_all_gather contiguous 1" "affine_all_gather contiguous 2" "affine_all_gather stream 4" \
        "affine_blelloch stream 3" "all_to_all zigzag 4" \
        "hierarchical contiguous 4 --set schedule.inner_ranks=2"; do
        read -r algorithm placement ranks more <<<"$plan"
        for size in 64 128; do
          echo "verified $algorithm $placement $ranks $dtype --set problem.head_size=$size" \
            "--set problem.value_size=$size --set problem.transition=$transition $more"
        done
      done
    done
  done | xargs -P 8 -d '\n' -I{} bash -c '{}' >"$out/gated-verify.txt" 2>&1
  grep -v "^rc 0 " "$out/gated-verify.txt" | head -40
  echo "$(grep -c '^rc 0 ' "$out/gated-verify.txt") of $(wc -l <"$out/gated-verify.txt") ok"
  verified affine_all_gather stream 4 bf16 --set problem.head_size=192  # refused: exit 2
  verified affine_all_gather stream 4 fp64                              # refused: exit 2
fi
if wants checkers; then
  step checkers
  for tool in memcheck racecheck; do
    timeout -k 2 100 compute-sanitizer --tool $tool --error-exitcode 9 tiles --alone --only linear_gated --cases 6 --threads 1 \
      >"$out/gated-$tool.txt" 2>&1
    echo "$tool rc $?: $(tail -1 "$out/gated-$tool.txt")"
  done
fi
if wants peers; then
  step peers
  timeout -k 2 "${PEERS_SECONDS:-300}" python3 scripts/peer_gated_delta.py --cplab "$(command -v cplab)" --forward \
    --out "$out/gated-delta.json"
  echo "rc $?"
fi
step end
