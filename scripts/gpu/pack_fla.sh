#!/bin/bash
# flash-linear-attention's operations as one archive for a GPU machine that can fetch nothing: Python 3.12, PyTorch,
# Triton and einops are there. scripts/gpu/pack_fla.sh OUT.tar.xz
# There: tar xJf OUT.tar.xz -C DIR; FLA_DIR=DIR/fla_core scripts/peer_linear_attention.py --ours TILES
set -euo pipefail
for command in pip python3 xz; do
  command -v "$command" >/dev/null || { echo "$0: no $command here" >&2; exit 3; }
done
out=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
pip download --quiet --no-deps --only-binary=:all: -d wheels fla-core==0.6.0
for wheel in wheels/*.whl; do python3 -m zipfile -e "$wheel" fla_core; done
rm -rf fla_core/*.dist-info
tar --owner=0 --group=0 -cJf "$out" fla_core
ls -l "$out"
