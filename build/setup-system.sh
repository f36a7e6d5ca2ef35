#!/usr/bin/env bash
# Installs the system packages that are missing. Debian and Ubuntu; elsewhere it says what is needed and goes on.
#
#   build/setup-system.sh          what it takes to build and run
#   build/setup-system.sh test     that, and what the tests use: a display without a screen, browsers, Wine
set -euo pipefail

build=(build-essential pkg-config libgtk-3-dev libwebkit2gtk-4.1-dev ca-certificates)
test=(xvfb dbus openbox wmctrl imagemagick x11-utils strace webkit2gtk-driver chromium chromium-driver
  fonts-dejavu-core wine wine64 gcc-mingw-w64-x86-64-win32)
# dbus-x11 is left out on purpose: with it, a program that finds no session bus starts one of its own and leaves it behind.

wanted=("${build[@]}")
if [ "${1:-}" = test ]; then wanted+=("${test[@]}"); fi
# The model builders need Python's venv, which Debian has in a package of its own.
if command -v python3 >/dev/null && ! python3 -c 'import ensurepip, venv' 2>/dev/null; then wanted+=(python3-venv); fi

if [ "$(uname -s)" != Linux ] || ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  echo "system packages: this is not Debian or Ubuntu, so nothing is installed. What is needed, by Debian's names: ${wanted[*]}"
  exit 0
fi

missing=()
for package in "${wanted[@]}"; do
  status=$(dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>/dev/null || true)
  if [ "$status" != installed ]; then missing+=("$package"); fi
done
if [ ${#missing[@]} -eq 0 ]; then
  echo "system packages: all there"
  exit 0
fi

install=(apt-get install --yes --no-install-recommends "${missing[@]}")
as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "system packages: root or sudo is needed to install: ${missing[*]}" >&2
    echo "  what to do: let someone with root run: ${install[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi

echo "system packages: install ${missing[*]}"
mkdir -p build/cache/logs
log=build/cache/logs/system.log
# A machine that has just started may be updating itself: wait for that. Debian's servers drop connections now and then: try again.
options=()
if [ "${CI:-}" = true ]; then options+=(-o Dpkg::Options::=--force-unsafe-io); fi # no waiting for the disk where nothing is kept
apt() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get "${options[@]}" -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 --quiet=2 "$@" >>"$log" 2>&1
}
: >"$log"
if ! apt update || ! apt install --yes --no-install-recommends "${missing[@]}"; then
  tail -n 20 "$log" >&2
  echo "system packages: apt-get failed; all it said is in $log" >&2
  echo "  what to do: see whether the network and Debian's package servers can be reached, then run this again, or: ${as_root[*]} ${install[*]}" >&2
  exit 1
fi
