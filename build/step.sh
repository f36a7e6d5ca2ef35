#!/usr/bin/env bash
# Runs one step of make: says what it does and how long it took, and if it fails, which one failed and what to do.
#
#   build/step.sh "what it does" "what to do if it fails" command argument...
set -uo pipefail
what=$1 hint=$2
shift 2
begin=$SECONDS
echo "==> $what"
"$@"
code=$?
took=$((SECONDS - begin))
if [ $code -ne 0 ]; then
  {
    echo
    echo "FAILED: $what (after ${took}s)"
    echo "  what to do: $hint"
  } >&2
  exit $code
fi
if [ $took -ge 2 ]; then echo "    done in ${took}s"; fi
