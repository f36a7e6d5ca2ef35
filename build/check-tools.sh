#!/usr/bin/env bash
# Tells whether the three tools that everything else comes through are there, and new enough.
set -euo pipefail

# needs NAME LEAST VERSION: compares versions as sort does
needs() {
  local name=$1 least=$2 version=$3
  if [ -z "$version" ]; then
    echo "$name is missing" >&2
    echo "  what to do: install $name $least or newer and see that it is in PATH" >&2
    exit 1
  fi
  if [ "$(printf '%s\n' "$least" "$version" | sort --version-sort | head -n 1)" != "$least" ]; then
    echo "$name is $version, $least or newer is needed" >&2
    echo "  what to do: install a newer $name and see that it comes first in PATH" >&2
    exit 1
  fi
}

needs Go 1.26 "$(GOTOOLCHAIN=local go env GOVERSION 2>/dev/null | sed 's/^go//' || true)"
needs Node 20 "$(node --version 2>/dev/null | sed 's/^v//' || true)"
needs npm 9 "$(npm --version 2>/dev/null || true)"
needs Python 3.11 "$(python3 -c 'import platform; print(platform.python_version())' 2>/dev/null || true)"
