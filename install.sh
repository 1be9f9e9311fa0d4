#!/bin/bash
# install.sh VENV PYTHON EXTRA: what the Makefile's environment holds; EXTRA is `core` or an extra of pyproject.toml.
# Two at once take turns. An install that was cut short may leave packages that pip takes for whole: the next one
# begins with an empty environment, where this script made it (.ours).
set -euo pipefail
venv=$1 python=$2 extra=$3

too_old="Python 3.11 or newer is needed: make PYTHON=python3.11 ..."
"$python" -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else sys.argv[1])' "$too_old"
mkdir -p "$venv"
exec 9>"$venv/.lock"
flock 9
# Another that held the lock may have done it.
if [ ! -e "$venv/.unfinished" ] && [ "$venv/.$extra" -nt pyproject.toml ] && [ "$venv/.$extra" -nt constraints/cpu.txt ]; then
  exit 0
fi

if [ -e "$venv/.unfinished" ] && [ -e "$venv/.ours" ]; then
  echo "the last install into $venv was cut short: it begins again"
  rm -rf "$venv"/{bin,lib,lib64,include,share,pyvenv.cfg,.core,.dev}
fi
touch "$venv/.unfinished"
if ! "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
  touch "$venv/.ours"
  "$python" -m venv "$venv"
fi
pip() { "$venv/bin/python" -m pip --disable-pip-version-check --quiet install -c constraints/cpu.txt "$@"; }
if [ "$extra" = core ]; then
  echo "installing neox-train into $venv (some minutes the first time)"
  pip pip setuptools wheel
  pip torch
  pip -e .
else
  echo "installing what the extra '$extra' needs"
  pip -e ".[$extra]"
fi
touch "$venv/.core" "$venv/.$extra"
rm "$venv/.unfinished"
