#!/usr/bin/env bash
# Makes the virtual environment and installs the npm packages; does nothing where both are current.
set -euo pipefail
cd "$(dirname "$0")/.."

need() { # the sentence that a person reads
  echo "set-up: $1" >&2
  exit 1
}

find_python() {
  local candidate
  for candidate in python3.13 python3 python; do
    if "$candidate" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 13))' 2>/dev/null; then
      command -v "$candidate"
      return
    fi
  done
  uv python find 3.13 2>/dev/null || true
}

python_packages() {
  local python
  python=$(find_python)
  [ -n "$python" ] || need "Python 3.13 is missing; install it (for example: pyenv install 3.13, or uv python install 3.13)."
  command -v cc >/dev/null || command -v gcc >/dev/null ||
    need "a C compiler is missing; install one (Debian, Ubuntu: apt-get install build-essential; macOS: xcode-select --install)."
  "$python" - <<'PY' || need "the headers of Python 3.13 are missing; install them (Debian, Ubuntu: apt-get install python3.13-dev)."
import pathlib, sys, sysconfig
sys.exit(not (pathlib.Path(sysconfig.get_path("include")) / "Python.h").exists())
PY
  echo "set-up: Python packages (about a minute)"
  rm -rf .venv
  "$python" -m venv .venv
  .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-input -r requirements-dev.txt
}

npm_packages() {
  command -v node >/dev/null && command -v npm >/dev/null ||
    need "Node.js is missing; install version 20 or later, with npm."
  node -e 'process.exit(Number(process.versions.node.split(".")[0]) < 20 ? 1 : 0)' ||
    need "Node.js $(node --version) is too old; install version 20 or later."
  echo "set-up: npm packages (about half a minute)"
  npm --prefix devstack ci --silent
}

# Two set-ups at once would take each other's environment away.
if command -v flock >/dev/null; then
  mkdir -p .stack
  exec 9>.stack/set-up.lock
  flock 9
fi

# A stamp holds the sum of what an installation was made from.
current() { # stamp, file…
  local stamp=$1
  shift
  [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$(cat "$@" | cksum)" ]
}

python_sources=(.python-version constraints.txt requirements.txt requirements-dev.txt)
if ! current .venv/.set-up "${python_sources[@]}"; then
  python_packages
  cat "${python_sources[@]}" | cksum >.venv/.set-up
fi

npm_sources=(devstack/package.json devstack/package-lock.json)
if ! current devstack/node_modules/.set-up "${npm_sources[@]}"; then
  npm_packages
  cat "${npm_sources[@]}" | cksum >devstack/node_modules/.set-up
fi
