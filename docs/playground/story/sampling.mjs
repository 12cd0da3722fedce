// What samples show: how far counts are from a law by chance, and the usual test of engines.
import { ZERO, float, lawOf, over, plus, total } from "./exact.mjs";
import { RIGHT, alike, emittedBy, iteration, token } from "./verification.mjs";

/** Return the expected total variation distance of `count` samples from their own law.
 *
 * A count X of mean n p has E|X - n p| = 2 m (1 - p) P(X = m), where m = floor(n p) + 1
 * (De Moivre).
 */
export function expectedDistance(weights, count) {
  const deviations = weights.map((p) => {
    if (p <= 0 || p >= 1) return 0;
    const m = Math.floor(count * p) + 1;
    let logarithm = m * Math.log(p) + (count - m) * Math.log1p(-p);
    for (let i = 1; i <= m; i++) logarithm += Math.log((count - m + i) / i);
    return 2 * m * (1 - p) * Math.exp(logarithm);
  });
  return deviations.reduce((a, b) => a + b, 0) / (2 * count);
}

/** Return the law of what the usual test draws: rows alike in every context, its own drafts. */
export function usuallyEmitted(instance, own) {
  return lawOf(iteration(alike(instance), token, { ...own, drawn: RIGHT.drawn }));
}

/** Return the law of a token among all at the drafted positions; the bonus is left out. */
export function pooled(emitted, { length }, vocabulary) {
  const mass = Array(vocabulary).fill(ZERO);
  for (const [outcome, weight] of emitted) {
    for (const drawn of emittedBy(outcome).slice(0, length)) mass[drawn] = plus(mass[drawn], weight);
  }
  return mass.map((weight) => over(weight, total(mass)));
}

/** Return the pooled counts of so many iterations. */
export function pooledCounts(emitted, { length }, vocabulary, count, next) {
  const cells = [...emitted].sort(([, a], [, b]) => float(b) - float(a));
  const tokens = cells.map(([outcome]) => emittedBy(outcome).slice(0, length));
  let edge = 0;
  const edges = cells.map(([, weight]) => (edge += float(weight)));
  const drawn = Array(cells.length).fill(0);
  for (let i = 0; i < count; i++) {
    const coin = next();
    let cell = 0;
    while (cell < cells.length - 1 && coin >= edges[cell]) cell += 1;
    drawn[cell] += 1;
  }
  const counts = Array(vocabulary).fill(0);
  for (const [cell, each] of drawn.entries()) for (const own of tokens[cell]) counts[own] += each;
  return counts;
}

/** Return rows that are no one's, by chance. */
export function otherRows(count, vocabulary, next) {
  return Array.from({ length: count }, () => {
    const row = Array.from({ length: vocabulary }, () => Math.exp(next()));
    const sum = row.reduce((a, b) => a + b, 0);
    return row.map((weight) => weight / sum);
  });
}

/** Return by how much the distance to the target has shrunk, as a multiple of that to other rows. */
export function shrunk(few, many, target, others) {
  const seen = (counts) => counts.map((count) => count / counts.reduce((a, b) => a + b, 0));
  const squares = (a, b) => a.reduce((sum, own, i) => sum + (own - b[i]) ** 2, 0);
  const [first, then] = [seen(few), seen(many)];
  const far = (row) => Math.sqrt(others.reduce((sum, other) => sum + squares(row, other), 0));
  const near = (row) => Math.sqrt(squares(row, target));
  return near(first) / near(then) / (far(first) / far(then));
}

/** Return the shrinkage that the usual test sees in one try; it notices one of at most `factor`. */
export function usualTry(emitted, instance, { few, many, others }, next) {
  const row = instance.target([]);
  const counts = (count) => pooledCounts(emitted, instance, row.length, count, next);
  return shrunk(counts(few), counts(many), row.map(float), otherRows(others, row.length, next));
}
