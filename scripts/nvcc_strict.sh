#!/usr/bin/env bash
# Compiler launcher for kernels whose registers are counted: runs the compiler (with -Xptxas -v among its options),
# prints a line for each kernel, and fails where ptxas spills registers or gives up overlapping wgmma (its notes C7510
# to C7519, which it calls "info" though they cost half the speed), or where host code calls a __device__ function: in a
# template nvcc does not say so, and makes of the function's host version one that ends the program by exit(1).
#
#   nvcc_strict.sh [--resources] [--spills-allowed] COMPILER ...
#
# --resources: says nothing of kernels that are fine, and writes what ptxas said of each to OBJECT.resources, a line a
# kernel and architecture: name, architecture, registers, barriers, bytes of stack frame, of spill stores, of spill
# loads, of static shared memory. kernels/cuda/resources.cmake makes a table of them.
# --spills-allowed: spills are written down there and are no error.
set -uo pipefail
resources="" object=""
bad='C751[0-9]|[1-9][0-9]* bytes spill'
while [[ ${1-} == --* ]]; do
  case $1 in
    --resources)
      previous=""
      for word in "$@"; do
        if [ "$previous" = -o ]; then object=$word resources=$word.resources; fi
        previous=$word
      done ;;
    --spills-allowed) bad='C751[0-9]' ;;
    *) echo "nvcc_strict.sh: $1: no such option" >&2; exit 2 ;;
  esac
  shift
done
log=$(mktemp)
trap 'rm -f "$log" "$log.resources"' EXIT
"$@" 2>"$log"
code=$?
awk -v resources="${resources:+$log.resources}" -v allowed="$([[ $bad == *spill* ]] || echo 1)" '
  # "in" of "FIELD in": the number before the word
  function before(word) { return match($0, "[0-9]+ " word) ? substr($0, RSTART, RLENGTH) + 0 : 0 }
  /Compiling entry function/ { split($0, part, "\047"); kernel = part[2]; architecture = part[4]; entry = 0 }
  /Function properties for/ { entry = $NF == kernel }
  # Of the entry, or of a function that it calls.
  /bytes stack frame/ { if (entry || !stack_of[kernel, architecture]) {
      stack = before("bytes stack frame"); stores = before("bytes spill stores"); loads = before("bytes spill loads")
      stack_of[kernel, architecture] = entry } }
  /Used [0-9]+ registers/ {
    if (resources != "")
      print kernel, architecture, before("registers"), before("barriers"), stack, stores, loads, before("bytes smem") > resources
    if (resources == "" || (stores + loads > 0 && !allowed))
      print "ptxas: " before("registers") " registers, " stores + loads " bytes spilled: " kernel
  }
  /C751[0-9]/ { print "ptxas: " $0 }
  !/ptxas info|bytes stack frame/ && NF > 0 { print }
' "$log" >&2
if [ $code -ne 0 ]; then exit $code; fi
if grep -qE "$bad" "$log"; then
  echo "nvcc_strict.sh: spilled registers or serialized wgmma (above)" >&2
  exit 1
fi
if [ -e "$object" ] && nm --undefined-only "$object" | grep -qw exit; then
  echo "nvcc_strict.sh: host code calls exit: the host version of a __device__ function is nothing else; of $object:" >&2
  objdump --disassemble --reloc --demangle "$object" | awk '/^[0-9a-f]+ <.*>:$/ { caller = $0 } /R_.*[ \t]exit(-|$)/ { print caller }' >&2
  exit 1
fi
if [ -n "$resources" ]; then
  : >>"$log.resources"  # of a file without kernels
  cat "$log.resources" >"$resources"
fi
