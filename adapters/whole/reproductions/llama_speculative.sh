#!/usr/bin/env bash
# llama-speculative 0.5.0-dev beside llama-speculative-simple: how often each letter follows `c`.
#
#     bash llama_speculative.sh FOLDER_OF_PROGRAMS TARGET.gguf DRAFT.gguf
#
# Both programs draft with the same model, so the two lines ought to agree to within .04. The models
# write single letters, such as those of `draftproof checkpoint tiny --kind memory-1`. Short texts,
# since a token costs more the more there are before it: 20 seconds of one core in all.
set -euo pipefail
programs=$1 target=$2 draft=$3
export LD_LIBRARY_PATH=$programs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
own=(-m "$target" -md "$draft" --prompt abc --ignore-eos -c 8192 -n 1000 --samplers temperature --temp 1
  -ctk f32 -ctv f32 -ctkd f32 -ctvd f32 --threads 1 --threads-draft 1 --parallel 1 --fit off)
counted() {
  python3 -c '
import collections, sys
text = sys.stdin.read()
found = collections.Counter(b for a, b in zip(text, text[1:]) if a == "c" and b.isalpha())
print(sys.argv[1])
print("  " + " ".join(f"{letter} {count / sum(found.values()):.2f}" for letter, count in sorted(found.items())))' "$1"
}
for program in llama-speculative "llama-speculative-simple --spec-type draft-simple"; do
  for seed in 1 2 3 4 5 6 7 8; do
    # shellcheck disable=SC2086 # a program and its option
    "$programs"/$program "${own[@]}" --seed "$seed" < /dev/null 2> /dev/null
  done | counted "${program%% *}"
done
