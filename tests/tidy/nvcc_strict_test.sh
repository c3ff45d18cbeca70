#!/usr/bin/env bash
# scripts/nvcc_strict.sh with a fake compiler that only prints: what passes, what fails, what is printed.
set -uo pipefail
strict=$1
failed=0
expect() {  # CODE PATTERN, of a compiler that says $3 and ends with $4
  local output code
  # shellcheck disable=SC2016  # the inner shell's
  output=$("$strict" bash -c 'printf "%b" "$0" >&2; exit "$1"' "$3" "${4:-0}" 2>&1)
  code=$?
  if [ "$code" -ne "$1" ] || ! grep -q "$2" <<<"$output"; then
    echo "expected $1 and '$2', got $code: $output"
    failed=1
  fi
}
entry="ptxas info    : Compiling entry function 'kernel' for 'sm_90a'\n"
used="ptxas info    : Used 168 registers, used 2 barriers\n"
expect 0 'ptxas: 168 registers, 0 bytes spilled: kernel' \
  "$entry    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n$used"
expect 1 'ptxas: 168 registers, 184 bytes spilled: kernel' \
  "$entry    48 bytes stack frame, 68 bytes spill stores, 116 bytes spill loads\n$used"
expect 1 'C7512' "ptxas info    : (C7512) Potential Performance Loss: wgmma.mma_async instructions are serialized\n$used"
expect 2 'error: no such thing' 'file.cu(1): error: no such thing\n' 2
# --resources keeps a line a kernel and architecture beside the object, the entry's own where it calls a function that has
# a stack; spills are no error where they are allowed.
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
said="${entry}ptxas info    : Function properties for kernel\n    48 bytes stack frame, 68 bytes spill stores, 116 bytes spill loads\n"
said="${said}ptxas info    : Function properties for other\n    8 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
said="${said}ptxas info    : Used 168 registers, used 9 barriers, 48 bytes cumulative stack size, 1024 bytes smem\n"
# shellcheck disable=SC2016  # the inner shell's
"$strict" --resources --spills-allowed bash -c 'printf "%b" "$0" >&2' "$said" -o "$folder/kernel.o" 2>"$folder/err"
code=$?
if [ $code -ne 0 ] || [ -s "$folder/err" ] ||
  [ "$(cat "$folder/kernel.o.resources")" != "kernel sm_90a 168 9 48 68 116 1024" ]; then
  echo "--resources: $code, $(cat "$folder/err" "$folder/kernel.o.resources")"
  failed=1
fi
# shellcheck disable=SC2016
if "$strict" --resources bash -c 'printf "%b" "$0" >&2' "$said" -o "$folder/other.o" 2>"$folder/err" ||
  ! grep -q '184 bytes spilled: kernel' "$folder/err" || [ -e "$folder/other.o.resources" ]; then
  echo "--resources alone lets spills pass: $(cat "$folder/err")"
  failed=1
fi
# Host code that calls a __device__ function: nvcc writes exit(1) in its place.
compile() { "$strict" --resources cc -c "$folder/host.c" -o "$folder/host.o" 2>"$folder/err"; }
echo 'void exit(int); void host_code(void) { exit(1); }' >"$folder/host.c"
if compile || ! grep -q '<host_code>' "$folder/err"; then
  echo "a call of exit passes: $(cat "$folder/err")"
  failed=1
fi
echo 'void exit(int); void host_code(void) {}' >"$folder/host.c"
compile || { echo "no call of exit, and yet: $(cat "$folder/err")"; failed=1; }
exit $failed
