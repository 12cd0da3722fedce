// Holds the verifiers of verifiers.mjs to law and decision vectors: node consumer.mjs FILE...
import { readFileSync } from "node:fs";
import { add, below, div, mul, one, rational, sub, sum, verifiers, zero } from "./verifiers.mjs";

// The first place whose running sum, divided by the whole, exceeds the number.
const placed = (weights, number) =>
  weights.findIndex((_, i) => below(mul(number, sum(weights)), sum(weights.slice(0, i + 1))));

function isRun(verify, { numbers, emits }) {
  const run = verify();
  let step = run.next();
  for (const number of numbers) step = run.next(step.done || placed(step.value, rational(number)));
  return step.done && `${step.value}` === `${emits}`;
}

function isLaw(verify, law) {
  const found = {};
  (function tried(answers, weight) {
    const run = verify();
    const { done, value } = answers.reduce((_, place) => run.next(place), run.next());
    if (done) found[value] = add(found[value] ?? zero, weight);
    else
      for (const [place, x] of value.entries())
        if (below(zero, x)) tried([...answers, place], mul(weight, div(x, sum(value))));
  })([], one);
  const same = ([path, kept, next, x]) => !sub(found[[path, kept, next]] ?? zero, rational(x))[0];
  return law.every(same) && law.length === Object.keys(found).length;
}

let [met, missed] = [0, 0];
for (const { instances, vectors } of process.argv.slice(2).map((f) => JSON.parse(readFileSync(f))))
  for (const { id, algorithm, instance, paths, runs, drafts } of vectors) {
    if (!verifiers[algorithm]) continue;
    const { target, draft } = instances[instance];
    const row = (model, context) => (Array.isArray(model) ? model : model[context]).map(rational);
    const along = (model, path) => path.map((_, i) => row(model, path.slice(0, i)));
    const on = ([path]) => () =>
      verifiers[algorithm](path, [...along(target, path), row(target, path)], along(draft, path));
    const isMet =
      runs?.every((run) => isRun(on(paths), run)) ?? drafts.every((d) => isLaw(on(d.paths), d.law));
    if (isMet) met++;
    else console.error(`missed ${++missed}: ${id}`);
  }
console.log(`${met} vectors met, ${missed} missed`);
process.exit(met && !missed ? 0 : 1);
