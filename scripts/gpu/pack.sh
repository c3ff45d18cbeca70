#!/bin/bash
# Gathers what a GPU machine without our packages needs: scripts/gpu/pack.sh BUILD_DIR OUT_DIR. The programs
# and those shared libraries that a bare machine with a driver and NCCL lacks.
set -euo pipefail
build=$1
out=$2
rm -rf "$out"
mkdir -p "$out/lib"
programs=("$build/cplab" "$build/grid" "$build/tests/gpu/tiles" "$build/tests/gpu/collectives"
  "$build/tests/rungs/rungs")
for program in "${programs[@]}"; do
  if [ -x "$program" ]; then
    cp "$program" "$out/"
    strip "$out/$(basename "$program")"
    ldd "$program" | awk '/=> \// {print $3}' | grep -vE 'lib(c|m|stdc\+\+|gcc_s|pthread|dl|rt|cuda)\.so|ld-linux' | xargs -r -I{} cp -L {} "$out/lib/" || true
  fi
done
# Plans as files, by number of ranks, for cplab verify --plan --device gpu.
if [ -x "$build/tests/exec/write_plans" ]; then
  for ranks in 1 2 4; do "$build/tests/exec/write_plans" "$out/plans/$ranks" "$ranks"; done
fi
# Stripping would take the embedded device code's line tables only; the code itself is data and stays.
strip "$out"/lib/* 2>/dev/null || true
du -sh "$out"
