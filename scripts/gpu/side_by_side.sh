#!/bin/bash
# Campaigns side by side on the GPUs of one machine, each with GPUs of its own; device time is short, processors are not.
# scripts/gpu/side_by_side.sh OUT_DIR SECONDS NAME=GPUS:COMMAND...
# GPUS: numbers with commas. COMMAND: run by bash with CUDA_VISIBLE_DEVICES set and OUT naming a folder of its own; it is
# ended after SECONDS. What it says, and that folder, lie in OUT_DIR/NAME.tar.xz; its last lines are shown.
set -uo pipefail
out=$(mkdir -p "$1" && realpath "$1")
seconds=$2
shift 2
cd "$(dirname "$0")/../.." || exit 1
work=$(mktemp -d)
lane() {  # NAME GPUS COMMAND
  mkdir -p "$work/$1"
  CUDA_VISIBLE_DEVICES=$2 OUT="$work/$1" timeout -k 2 "$seconds" bash -c "$3" >"$work/$1/said.txt" 2>&1
  echo "$1: rc $? ($SECONDS s)" | tee -a "$work/$1/said.txt"
  tar cJf "$out/$1.tar.xz" -C "$work" "$1"
}
for entry in "$@"; do
  name=${entry%%=*} rest=${entry#*=}
  lane "$name" "${rest%%:*}" "${rest#*:}" &
done
wait
for entry in "$@"; do
  echo "== ${entry%%=*}"
  tail -n "${LINES_SHOWN:-25}" "$work/${entry%%=*}/said.txt" | cut -c1-180
done
