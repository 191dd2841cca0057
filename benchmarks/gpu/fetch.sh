#!/bin/sh
# Fetches the wheels of wheels.txt, for Python 3.12 on x86-64, and builds Chainer's, into build/gpu/wheels.
set -eu
cd "$(dirname "$0")/../.."
python=${PYTHON:-.venv/bin/python}
wheels=build/gpu/wheels
rm -rf "$wheels"
platforms=
for glibc in 2_28 2_27 2_24 2_17; do platforms="$platforms --platform manylinux_${glibc}_x86_64"; done
# shellcheck disable=SC2086
"$python" -m pip download --quiet --no-deps --only-binary=:all: --python-version 3.12 \
    --implementation cp $platforms --platform manylinux2014_x86_64 --dest "$wheels" \
    --requirement benchmarks/gpu/wheels.txt
"$python" -m pip wheel --quiet --no-deps --build-constraint constraints-build.txt \
    --wheel-dir "$wheels" chainer==7.8.1
checkout=$(git ls-files -z --cached --others --exclude-standard | xargs -0 cat | wc -c)
carried=$(cat "$wheels"/*.whl | wc -c)
echo "checkout $((checkout / 1000000)) MB, wheels $((carried / 1000000)) MB"
[ $((checkout + carried)) -lt 60000000 ] || { echo "more than 60 MB" >&2; exit 1; }
