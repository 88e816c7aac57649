#!/usr/bin/env bash
# Rewrites constraints.txt from a fresh installation of what the requirements files name.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p .stack
work=$(mktemp -d .stack/lock-XXXXXX)
trap 'rm -rf "$work"' EXIT
for file in requirements.txt requirements-dev.txt; do
  grep -v '^-c ' "$file" >"$work/$file"
done
.venv/bin/python -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --disable-pip-version-check -r "$work/requirements-dev.txt"
{
  echo "# Every version that was tested together; the requirements files name what we use directly."
  "$work/venv/bin/python" -m pip freeze
} >constraints.txt
