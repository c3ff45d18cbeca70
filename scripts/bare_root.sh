#!/usr/bin/env bash
# The first commands of the README on a machine with nothing but make: scripts/bare_root.sh SUITE DIR [TOOLKIT]
# Makes a bare Debian (SUITE: bookworm, trixie) in DIR with debootstrap, or takes the one that is there, clones this
# checkout's commit into it and runs `make demo` and `make test`. TOOLKIT is the folder of a CUDA toolkit, seen inside
# as /usr/local/cuda with its bin on the PATH. Needs root. DIR stays, for a look or to be deleted.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ $# -lt 2 ] || [ $# -gt 3 ]; then
  echo "usage: $0 SUITE DIR [TOOLKIT]" >&2
  exit 2
fi
suite=$1
mkdir -p "$2"
root=$(realpath "$2")
toolkit=${3:-}
if [ -n "$toolkit" ] && [ ! -x "$toolkit/bin/nvcc" ]; then
  echo "$0: no bin/nvcc in $toolkit" >&2
  exit 2
fi
for command in debootstrap git; do
  command -v $command >/dev/null || { echo "$0: needs $command" >&2; exit 3; }
done
[ "$(id -u)" -eq 0 ] || { echo "$0: must run as root, for chroot and mount" >&2; exit 3; }

[ -e "$root/bin/sh" ] || debootstrap --variant=minbase --include=make "$suite" "$root"
git clone --quiet . "$root/cplab"

path=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
mounted=()
leave() {
  local place
  for place in "${mounted[@]}"; do umount "$place"; done
}
trap leave EXIT
mount --bind /dev "$root/dev"
mounted+=("$root/dev")
mount --bind /dev/pts "$root/dev/pts"  # pseudo-terminals, as on a real machine
mounted=("$root/dev/pts" "${mounted[@]}")
mount -t proc proc "$root/proc"
mounted+=("$root/proc")
if [ -n "$toolkit" ]; then
  mkdir -p "$root/usr/local/cuda"
  mount --bind -o ro "$(realpath "$toolkit")" "$root/usr/local/cuda"
  mounted+=("$root/usr/local/cuda")
  path=/usr/local/cuda/bin:$path
fi

proxies=()  # apt's proxies, if this machine has any
for name in http_proxy https_proxy; do
  if [ -n "${!name:-}" ]; then proxies+=("$name=${!name}"); fi
done
inside() {
  chroot "$root" env -i "${proxies[@]}" PATH=$path HOME=/root LANG=C.UTF-8 "$@"
}
while read -r command source _; do
  if [ "$source" = bare ] && ! inside bash -c "command -v $command" >/dev/null; then
    echo "$0: a bare $suite has no $command, which tests/tidy/commands.txt says it has" >&2
    exit 1
  fi
done <tests/tidy/commands.txt
inside make -C /cplab demo
inside make -C /cplab test
