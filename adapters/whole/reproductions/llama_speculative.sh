#!/usr/bin/env bash
# llama-speculative, v0.5.0: how often each letter follows `c`, with a draft and by the target alone.
#
#     bash llama_speculative.sh FOLDER_OF_PROGRAMS TARGET.gguf DRAFT.gguf
#
# The models write single letters, such as those of `draftproof checkpoint tiny`. The two columns
# ought to agree to two digits.
set -euo pipefail
programs=$1 target=$2 draft=$3
own=(--prompt abc --ignore-eos -c 8192 -ctk f32 -ctv f32 --samplers temperature --temp 1 --threads 1)
counted() {
  python3 -c '
import collections, sys
text = sys.stdin.read()
found = collections.Counter(b for a, b in zip(text, text[1:]) if a == "c" and b.isalpha())
print(" ".join(f"{letter} {count / sum(found.values()):.2f}" for letter, count in sorted(found.items())))'
}
for model in "$draft" "$target"; do
  for seed in 1 2 3 4 5; do
    "$programs/llama-speculative" -m "$target" -md "$model" -ctkd f32 -ctvd f32 --threads-draft 1 \
      --seed $seed -n 4000 "${own[@]}" 2> /dev/null
  done | counted
done
