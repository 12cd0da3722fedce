#!/usr/bin/env bash
# Build llama.cpp 0.5.0-dev, whose source comes with an npm package: bash llama_cpp.sh FOLDER
# FOLDER/bin has the programs as released, FOLDER/fixed has llama-speculative with a line replaced.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
mkdir -p "$1"
cd "$1"
for program in npm git cmake make g++; do
  command -v $program > /dev/null || { echo "llama.cpp is built with $program, which is missing" >&2; exit 1; }
done
npm pack --silent node-llama-cpp@3.22.1
echo 'a0d9dd80eacd2ab1cfe71aee57ac8a806487fd70b3d2a38fbec637752d9e5c5f  node-llama-cpp-3.22.1.tgz' | sha256sum --check --quiet
tar -xzf node-llama-cpp-3.22.1.tgz
git clone --quiet package/llama/gitRelease.bundle src
cmake -S src -B build -DCMAKE_BUILD_TYPE=None -DCMAKE_CXX_FLAGS=-O1 -DCMAKE_C_FLAGS=-O2 -DGGML_NATIVE=OFF \
  -DGGML_OPENMP=OFF -DLLAMA_OPENSSL=OFF -DLLAMA_CURL=OFF -DLLAMA_BUILD_UI=OFF -DLLAMA_BUILD_WEBUI=OFF \
  -DLLAMA_BUILD_TESTS=OFF -DLLAMA_USE_PREBUILT_UI=OFF > cmake.log
make -C build -j "$(nproc)" llama-server llama-speculative llama-speculative-simple > make.log
cp -r build/bin bin
patch --quiet --directory src --strip 1 < "$here/llama_speculative.patch"
make -C build llama-speculative >> make.log
cp -r build/bin fixed
rm -rf package build node-llama-cpp-3.22.1.tgz
