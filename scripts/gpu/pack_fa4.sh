#!/bin/bash
# FlashAttention 4's kernels for Hopper as one archive for a GPU machine that can fetch nothing: Python 3.12 and
# PyTorch are there, the rest is packed. scripts/gpu/pack_fa4.sh OUT.tar.xz   (54 MiB; compressing takes minutes)
# There: tar xJf OUT.tar.xz -C DIR; FA4_DIR=DIR/fa4 scripts/peer_attention.py --candidates cudnn,fa4,best ...
set -euo pipefail
for command in pip python3 xz; do
  command -v "$command" >/dev/null || { echo "$0: no $command here" >&2; exit 3; }
done
out=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
packages=(flash-attn-4==4.0.0b36 nvidia-cutlass-dsl==4.8.1 nvidia-cutlass-dsl-libs-base==4.8.1
  nvidia-cutlass-dsl-libs-core==4.8.1 nvidia-cutlass-dsl-libs-cu13==4.8.1 quack-kernels==0.6.5
  apache-tvm-ffi==0.1.15.post2 torch-c-dlpack-ext==0.1.5 einops==0.8.2)
platforms=()
for glibc in 39 35 34 31 28 27 24 17; do platforms+=(--platform "manylinux_2_${glibc}_x86_64"); done
pip download --quiet --pre --no-deps --only-binary=:all: --python-version 3.12 --implementation cp \
  "${platforms[@]}" --platform manylinux2014_x86_64 -d wheels "${packages[@]}"
mkdir fa4
for wheel in wheels/*.whl; do python3 -m zipfile -e "$wheel" fa4; done
rm -rf fa4/*.dist-info fa4/torch_c_dlpack_ext/*.so
# The two large libraries side by side, and a dictionary that spans both.
large=$(find fa4 -name '*.so*' -size +20M | sort)
find fa4 -type f ! -name '*.pyc' | sort | grep -vxF "$large" >rest
{ echo "$large"; cat rest; } | tar --owner=0 --group=0 -cf - -T - |
  xz -T1 --x86 --lzma2=preset=6e,dict=256MiB -c >"$out"
ls -l "$out"
