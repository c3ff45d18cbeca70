#!/usr/bin/env bash
# scripts/registers_in_flight.py on small listings in the form of cuobjdump's.
set -uo pipefail
tool=$1
failed=0
expect() {  # CODE PATTERN INSTRUCTION...: 16 bytes each, from address 0
  local code=$1 pattern=$2 address=0 output got
  shift 2
  output=$(
    {
      echo "		Function : kernel"
      for instruction in "$@"; do
        printf '        /*%04x*/                   %s ;  /* 0x0 */\n' $address "$instruction"
        address=$((address + 16))
      done
    } | "$tool" - 2>&1
  )
  got=$?
  if [ "$got" -ne "$code" ] || ! grep -q "$pattern" <<<"$output"; then
    echo "expected $code and '$pattern', got $got: $output"
    failed=1
  fi
}
issue='HGMMA.64x64x16.F32.BF16 R24, R8, gdesc[UR4], R24, gsb0'
wait='WARPGROUP.DEPBAR.LE gsb0, 0x0'
expect 0 '1 kernels, 1 wgmma, 0 registers' "$issue" "$wait" 'MOV R8, R2'
expect 1 '0x0010: MOV R11, R2' "$issue" 'MOV R11, R2' "$wait"
expect 0 ' 0 registers' "$issue" 'MOV R12, R2' 'ST.E [R8], R2' 'ISETP.GE.AND P0, PT, R8, R2, PT' "$wait"
# Two registers from R7 on; four by a load of four matrices, guarded by a predicate.
expect 1 'IMAD.WIDE R7' "$issue" 'IMAD.WIDE R7, R2, 0x4, R4' "$wait"
expect 1 'LDSM' "$issue" '@P0 LDSM.16.M88.4 R5, [R2]' "$wait"
expect 1 'LDSM' "$issue" 'LDSM.16.M88.2 R7, [R2]' "$wait"
expect 0 ' 0 registers' "$issue" 'LDSM.16.M88.2 R6, [R2]' "$wait"
# One batch may stay in flight: the first is complete after the wait, the second is not.
second='HGMMA.64x64x16.F32.BF16 R24, R16, gdesc[UR4], R24, gsb0'
expect 0 '2 wgmma, 0' "$issue" "$second" 'WARPGROUP.DEPBAR.LE gsb0, 0x1' 'MOV R8, R2' "$wait"
expect 1 'MOV R16' "$issue" "$second" 'WARPGROUP.DEPBAR.LE gsb0, 0x1' 'MOV R16, R2' "$wait"
# Over the back edge: R8 is written at the head of the loop while the batch of the turn before reads it.
expect 1 '0x0000: MOV R8' 'MOV R8, R2' "$issue" 'BRA 0x0' "$wait"
expect 0 ' 0 registers' 'MOV R8, R2' "$issue" "$wait" 'BRA 0x0'
# Operands in shared memory alone.
expect 0 ' 0 registers' 'HGMMA.64x64x16.F32.BF16 R24, gdesc[UR4], R24, gsb0' 'MOV R8, R2' "$wait"
if "$tool" - </dev/null >/dev/null 2>&1; then
  echo "no kernels, and fine?"
  failed=1
fi
exit $failed
