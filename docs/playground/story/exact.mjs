// Exact arithmetic: fractions of whole numbers, programs that ask for coins, and their exact laws.

/** Return the fraction above/below in lowest terms. */
function reduced(above, below) {
  if (below < 0n) return reduced(-above, -below);
  let [a, b] = [above < 0n ? -above : above, below];
  while (b) [a, b] = [b, a % b];
  return { above: above / a, below: below / a };
}

/** Return the fraction of a text such as "3/8", or of a whole number. */
export function fraction(text) {
  const [above, below = 1] = `${text}`.split("/");
  return reduced(BigInt(above), BigInt(below));
}

export const ZERO = fraction(0);
export const ONE = fraction(1);
export const plus = (a, b) => reduced(a.above * b.below + b.above * a.below, a.below * b.below);
export const minus = (a, b) => reduced(a.above * b.below - b.above * a.below, a.below * b.below);
export const times = (a, b) => reduced(a.above * b.above, a.below * b.below);
export const over = (a, b) => reduced(a.above * b.below, a.below * b.above);
export const isBelow = (a, b) => a.above * b.below < b.above * a.below;
export const least = (a, b) => (isBelow(b, a) ? b : a);
export const isZero = (a) => a.above === 0n;
export const isEqual = (a, b) => a.above === b.above && a.below === b.below;
export const size = (a) => (a.above < 0n ? { ...a, above: -a.above } : a);
export const float = (a) => Number(a.above) / Number(a.below);
export const written = (a) => (a.below === 1n ? `${a.above}` : `${a.above}/${a.below}`);
export const total = (row) => row.reduce(plus, ZERO);

/** Return max(scale * p - q, 0), entry by entry. */
export function excess(p, q, scale = ONE) {
  return p.map((own, i) => {
    const left = minus(times(scale, own), q[i]);
    return isBelow(left, ZERO) ? ZERO : left;
  });
}

export const normalised = (row) => row.map((weight) => over(weight, total(row)));

/** Return the total variation distance of two rows of weights. */
export const distance = (a, b) => over(total(a.map((own, i) => size(minus(own, b[i])))), fraction(2));

/** Return the exact law of a program, a Map of its outcomes: it is run for all answers of chance. */
export function lawOf(program) {
  const law = new Map();
  let told = [];
  while (told) {
    const given = [];
    let probability = ONE;
    const draw = (weights) => {
      const step = given.length;
      const answer = step < told.length ? told[step].answer : possible(weights, 0);
      given.push({ weights, answer });
      probability = times(probability, over(weights[answer], total(weights)));
      return answer;
    };
    const outcome = program({ draw, coin: (p) => draw([p, minus(ONE, p)]) === 0 });
    law.set(outcome, plus(law.get(outcome) ?? ZERO, probability));
    told = following(given);
  }
  return law;
}

/** Return the first place from `start` on that can be drawn, or the number of places. */
function possible(weights, start) {
  let i = start;
  while (i < weights.length && isZero(weights[i])) i += 1;
  return i;
}

function following(given) {
  const told = [...given];
  while (told.length) {
    const { weights, answer } = told.pop();
    const next = possible(weights, answer + 1);
    if (next < weights.length) return [...told, { weights, answer: next }];
  }
  return null;
}

/** Return numbers from 0 to 1 by chance, the same for the same seed (mulberry32). */
export function numbers(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Return a chance that answers by these numbers, and tells `hear` of every question. */
export function dice(next, hear = () => {}) {
  const draw = (weights) => {
    const coin = next();
    const whole = float(total(weights));
    let edge = 0;
    let last = 0;
    for (const [i, weight] of weights.entries()) {
      if (isZero(weight)) continue;
      edge += float(weight) / whole;
      last = i;
      if (coin < edge) break;
    }
    hear({ coin, answer: last });
    return last;
  };
  return { draw, coin: (p) => draw([p, minus(ONE, p)]) === 0 };
}
