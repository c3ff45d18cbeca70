#!/usr/bin/env bash
# Installs the Debian packages that are missing, and only those; says nothing when all is there.
#   scripts/setup.sh [build] [test] [python] [figures] [site] [browser] [fuzz] [lint]   (build when no group is named)
# Exit 0: everything is there, or there is no apt-get to fetch it with (CMake then names what it misses).
# Exit 3: a package is missing and could not be installed.
set -euo pipefail
cd "$(dirname "$0")/.."

missing=()

need_command() {  # COMMAND PACKAGE
  command -v "$1" >/dev/null 2>&1 || missing+=("$2")
}

need_headers() {  # the libraries of the root CMakeLists.txt, asked of the compiler that will read them
  if ! command -v g++ >/dev/null 2>&1; then
    missing+=(libeigen3-dev doctest-dev libtomlplusplus-dev nlohmann-json3-dev libfmt-dev
      libboost-program-options-dev libsimgrid-dev)
    return
  fi
  local found
  found=$(g++ -E -P -x c++ - <<'HEADERS'
#if !__has_include(<eigen3/Eigen/Core>) && !__has_include(<Eigen/Core>)
libeigen3-dev
#endif
#if !__has_include(<doctest/doctest.h>)
doctest-dev
#endif
#if !__has_include(<toml++/toml.h>)
libtomlplusplus-dev
#endif
#if !__has_include(<nlohmann/json.hpp>)
nlohmann-json3-dev
#endif
#if !__has_include(<fmt/core.h>)
libfmt-dev
#endif
#if !__has_include(<boost/program_options.hpp>)
libboost-program-options-dev
#endif
#if !__has_include(<simgrid/s4u.hpp>)
libsimgrid-dev
#endif
HEADERS
  )
  # shellcheck disable=SC2206  # package names hold no blanks
  missing+=($found)
}

need_matplotlib() {
  scripts/figures.sh --find-python >/dev/null || missing+=(python3-matplotlib)
}

need_python() {  # to build the Python module: headers, and venv with pip
  if ! command -v python3 >/dev/null 2>&1; then
    missing+=(python3 python3-dev python3-venv)
    return
  fi
  python3 -c 'import os, sysconfig; open(os.path.join(sysconfig.get_paths()["include"], "Python.h"))' 2>/dev/null ||
    missing+=(python3-dev)
  python3 -c 'import ensurepip' 2>/dev/null || missing+=(python3-venv)
}

need_libfuzzer() {
  if ! echo 'extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }' |
    clang++-14 -x c++ -fsanitize=fuzzer -o /dev/null - 2>/dev/null; then
    missing+=(clang-14 libclang-rt-14-dev)
  fi
}

[ $# -gt 0 ] || set -- build
for group in "$@"; do
  case "$group" in
    build)
      need_command g++ g++
      need_command cmake cmake
      need_command ninja ninja-build
      need_command pkg-config pkg-config
      need_headers
      ;;
    test) need_command python3 python3 ;;
    python) need_python ;;
    figures) need_matplotlib ;;
    site) need_command mkdocs mkdocs ;;
    fuzz) need_libfuzzer ;;
    browser) need_command chromium chromium ;;
    lint)
      command -v clang-format-14 >/dev/null 2>&1 || missing+=(clang-format-14)
      need_command shellcheck shellcheck
      ;;
    *)
      echo "scripts/setup.sh: no group '$group'; the groups are build, test, python, figures, site, browser, fuzz" \
        "and lint" >&2
      exit 2
      ;;
  esac
done

[ ${#missing[@]} -gt 0 ] || exit 0

if ! command -v apt-get >/dev/null 2>&1; then
  echo "cplab: not found: ${missing[*]} (named as in Debian 12; no apt-get here, so CMake decides)" >&2
  exit 0
fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null 2>&1; then
    echo "cplab: please run as root: apt-get install --no-install-recommends ${missing[*]}" >&2
    exit 3
  fi
  as_root=(sudo)
  [ -t 0 ] || as_root+=(-n)  # with nobody to type a password, fail instead of waiting
fi

echo "cplab: installing ${missing[*]}" >&2
mkdir -p build
log=build/setup.log
apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300)
# A failed update (one unreachable source) may be harmless: only a package that cannot be installed is an error.
if ! { "${apt[@]}" update || true; "${apt[@]}" install --no-install-recommends "${missing[@]}"; } \
    >"$log" 2>&1 </dev/null; then
  tail -n 20 "$log" >&2
  echo "cplab: could not install ${missing[*]} (whole log: $log)" >&2
  exit 3
fi
