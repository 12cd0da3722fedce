#!/usr/bin/env bash
# Install this checkout, with EXTRAS such as "torch,dask", from nothing that is not locked here:
#     bash locks/install.sh EXTRAS
set -euo pipefail

extras=${1-}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
python -m pip install --require-hashes --no-deps --requirement "$here/locks/builder.txt"
# PyPI's torch brings gigabytes for GPUs.
if [[ $extras ]]; then
  python -m pip install --require-hashes --no-deps --requirement "$here/locks/torch.txt" \
    --index-url https://download.pytorch.org/whl/cpu
fi
# In a wheel, as pip cannot check the hash of a folder.
built=$(mktemp -d)
python -m pip wheel --no-deps --no-build-isolation --wheel-dir "$built" "$here"
wheel=$(find "$built" -name '*.whl')
hash=$(python -m pip hash "$wheel" | tail -n 1)
python -m pip install --require-hashes --constraint "$here/locks/draftproof.txt" \
  "draftproof${extras:+[$extras]} @ file://$wheel#sha256=${hash##*:}"
rm -r "$built"
