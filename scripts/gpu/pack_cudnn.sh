#!/bin/bash
# cuDNN from PyPI, newer than the one that PyTorch brings, for a GPU machine that can fetch nothing and takes some 64 MiB
# at a time, this repository included. scripts/gpu/pack_cudnn.sh VERSION OUT_DIR   (9.28.1.4: three parts, some minutes)
# OUT_DIR gets part.0, part.1, ...; there: cat part.* | tar xJ -C DIR, then LD_PRELOAD=DIR/libcudnn.so.9 (which finds
# its libraries beside itself) python3 scripts/peer_attention.py ...
set -euo pipefail
for command in pip python3 xz; do
  command -v "$command" >/dev/null || { echo "$0: no $command here" >&2; exit 3; }
done
version=$1
out=$(mkdir -p "$2" && realpath "$2")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
pip download --quiet --no-deps --only-binary=:all: --platform manylinux_2_27_x86_64 -d . "nvidia-cudnn-cu13==$version"
python3 -m zipfile -e ./*.whl wheel
cd wheel/nvidia/cudnn/lib
# What attention on Hopper does without: recurrent networks, and kernels that are not made at run time.
rm libcudnn_adv.so.9 libcudnn_engines_precompiled.so.9 libcudnn_engines_tensor_ir.so.9
tar --owner=0 --group=0 -c ./*.so.9 | xz -T0 --x86 --lzma2=preset=6 -c | split -b 44M -d -a 1 - "$out/part."
ls -l "$out"
