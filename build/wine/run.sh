#!/usr/bin/env bash
# Runs a Windows program under Wine, with what Wine lacks, in a Windows folder tree of its own: build/cache/wine.
#
#   build/wine/run.sh build/bin/signalbox.exe serve
#
# WINEPREFIX, when set, is used instead of build/cache/wine. Without a display Wine has no windows and no tray; programs run.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=$(cd "$here/.." && pwd)/cache
export WINEPREFIX="${WINEPREFIX:-$cache/wine}" WINEDEBUG="${WINEDEBUG:--all}" WINEDLLOVERRIDES="mscoree,mshtml="
wine=/usr/lib/wine/wine64
if [ ! -x "$wine" ]; then
  echo "wine: $wine is missing; run build/setup-system.sh test" >&2
  exit 1
fi

mkdir -p "$cache"
exec 9>"$cache/wine.lock" # two first runs at once would make the same tree
flock 9
if [ ! -f "$WINEPREFIX/drive_c/windows/system32/bcryptprimitives.dll" ]; then
  mkdir -p "$(dirname "$WINEPREFIX")"
  env -u DISPLAY "$wine" wineboot --init >/dev/null 2>&1 9>&- # or its server would keep the lock
  x86_64-w64-mingw32-gcc-win32 -shared -O2 -o "$WINEPREFIX/bcryptprimitives.dll" "$here/prng.c" -ladvapi32
  mv "$WINEPREFIX/bcryptprimitives.dll" "$WINEPREFIX/drive_c/windows/system32/"
fi
exec 9>&-
exec "$wine" "$@"
