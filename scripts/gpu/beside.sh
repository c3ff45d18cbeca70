#!/bin/bash
# Backward calls whose kernel prepares and rounds dq beside its tiles (kernels/cuda/hopper/backward_fused/dq_beside.cuh), on
# one GPU: `cplab verify` of calls that are large enough for it, then compute-sanitizer on small cases of `tiles`,
# which asks for it wherever it can.
# scripts/gpu/beside.sh OUT_DIR   Leaves beside-verify.txt and beside-sanitizers.txt there, one line each for a run.
set -uo pipefail
out=$(mkdir -p "$1" && realpath "$1")
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=scripts/gpu/environment.sh disable=SC1091,SC2154
source scripts/gpu/environment.sh
need compute-sanitizer

# BATCHxSEQUENCE HEADS KV_HEADS WIDTH MASK
verify() {
  verify_line "$*" --set parallel.ranks=1 --set "problem.batch=${1%x*}" --set "problem.sequence=${1#*x}" \
    --set "problem.heads=$2" --set "problem.kv_heads=$3" --set "problem.head_size=$4" --set "problem.mask=$5" \
    --set parallel.placement=contiguous
}
problems() {
  local width shape
  for width in 64 128; do
    for shape in "1x2100 12 12 full" "3x1031 16 16 full" "2x1500 16 4 full" "1x2950 12 12 causal"; do
      echo "${shape% *} $width ${shape##* }"
    done
  done
}
machine >"$out/beside-verify.txt"
export -f verify verify_line
export results
# shellcheck disable=SC2016
problems | xargs -P 8 -d '\n' -I{} bash -c 'verify $1' _ {} | tee -a "$out/beside-verify.txt"

# CASE TOOL
check() {
  local said code
  said=$(mktemp "$results/check-XXXX")
  timeout 200 compute-sanitizer --tool "$2" --error-exitcode 9 tiles --alone --only attend --threads 4 --case "$1" --seed 2 \
    >"$said" 2>&1
  code=$?
  echo "case $1, seed 2, $2: rc $code: $(grep -E 'SUMMARY' "$said" | tail -1)"
}
# The first cases whose kernel works beside tiles, of each head size.
fused_cases() {
  local number width
  # shellcheck disable=SC2016
  seq 0 60 | xargs -P 8 -I{} bash -c 'tiles --only attend --threads 2 --case {} --seed 2 >"$0/case-{}" 2>&1' "$results"
  for number in $(seq 0 60); do
    for width in 64 128; do
      grep -qE "hopper fused (bf16|fp16) $width, beside tiles" "$results/case-$number" && echo "$width $number"
    done
  done | sort -s -k1,1n | awk '++count[$1] <= 2 { print $2 }' | sort -un
}
machine >"$out/beside-sanitizers.txt"
export -f check
# shellcheck disable=SC2016
for number in $(fused_cases); do
  for tool in memcheck racecheck synccheck initcheck; do echo "$number $tool"; done
done | xargs -P 8 -d '\n' -I{} bash -c 'check $1' _ {} | tee -a "$out/beside-sanitizers.txt"
