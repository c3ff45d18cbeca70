#!/bin/bash
# cuDNN from PyPI, newer than the one that PyTorch brings, for a GPU machine that can fetch nothing and takes 64 MiB
# at a time. scripts/gpu/pack_cudnn.sh VERSION OUT_DIR   (9.28.1.4: three parts, some minutes)
# OUT_DIR gets part.0, part.1, ...; there: cat part.* | tar xJ -C DIR, then LD_PRELOAD=DIR/libcudnn.so.9 (which finds
# its libraries beside itself) for whatever is to use it.
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
rm libcudnn_adv.so.9  # recurrent networks
tar --owner=0 --group=0 -c ./*.so.9 | xz -T0 --x86 --lzma2=preset=6 -c | split -b 60M -d -a 1 - "$out/part."
ls -l "$out"
