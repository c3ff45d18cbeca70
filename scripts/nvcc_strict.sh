#!/usr/bin/env bash
# Compiler launcher for kernels whose registers are counted: runs the compiler (with -Xptxas -v among its options),
# prints a line for each kernel, and fails where ptxas spills registers or gives up overlapping wgmma (its notes C7510
# to C7519, which it calls "info" though they cost half the speed).
set -uo pipefail
log=$(mktemp)
trap 'rm -f "$log"' EXIT
"$@" 2>"$log"
code=$?
awk '
  /Compiling entry function/ { split($0, part, "\047"); kernel = part[2] }
  /bytes stack frame/ { spills = $5 + $9 }
  /Used [0-9]+ registers/ { match($0, /Used [0-9]+ registers/)
    print "ptxas: " substr($0, RSTART + 5, RLENGTH - 5) ", " spills " bytes spilled: " kernel }
  /C751[0-9]/ { print "ptxas: " $0 }
  !/ptxas info|bytes stack frame/ && NF > 0 { print }
' "$log" >&2
if [ $code -ne 0 ]; then exit $code; fi
if grep -qE 'C751[0-9]|[1-9][0-9]* bytes spill' "$log"; then
  echo "nvcc_strict.sh: spilled registers or serialized wgmma (above)" >&2
  exit 1
fi
