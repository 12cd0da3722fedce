// Token and block verification of one path, and the ways in which engines have got it wrong.
//
// Programs ask a chance for coins and draws, as those of the reference do: run for all answers they
// give a law, run by numbers a sample.
import {
  ONE,
  ZERO,
  distance,
  excess,
  fraction,
  isBelow,
  isZero,
  lawOf,
  least,
  minus,
  over,
  plus,
  times,
  total,
} from "./exact.mjs";

/** Return an instance: L, and the rows of target and draft after every context, a list of tokens. */
export function instanceOf({ length, words = [], target, draft }) {
  const model = (rows) => {
    if (Array.isArray(rows)) {
      const row = rows.map(fraction);
      return () => row;
    }
    const read = new Map(Object.entries(rows).map(([word, row]) => [word, row.map(fraction)]));
    return (context) => read.get(context.length ? words[context.at(-1)] : "");
  };
  return { length, target: model(target), draft: model(draft) };
}

/** Return the instance whose rows are alike in every context: those of the start. */
export function alike({ length, target, draft }) {
  return { length, target: () => target([]), draft: () => draft([]) };
}

/** The steps of token verification that a bug can replace. */
export const RIGHT = {
  drawn: (q) => q,
  passing: (ratio) => least(ONE, ratio),
  goesOn: false,
  correction: (p, q) => excess(p, q),
  last: (own, path, accepted, { length, target, draft }) => {
    const context = path.slice(0, accepted);
    return accepted < length ? own.correction(target(context), draft(context)) : target(path);
  },
};

const GRID = fraction(256);

/** Wrong steps by the name of the bug. */
export const BUGS = {
  "bonus-from-draft": {
    last: (own, path, accepted, instance) =>
      accepted < instance.length
        ? RIGHT.last(own, path, accepted, instance)
        : instance.draft(path.slice(0, -1)),
  },
  "bonus-one-row-early": {
    last: (own, path, accepted, instance) =>
      accepted < instance.length
        ? RIGHT.last(own, path, accepted, instance)
        : instance.target(path.slice(0, -1)),
  },
  "correction-of-row-zero": { last: (own, path, accepted, instance) => RIGHT.last(own, path, 0, instance) },
  // At temperature 1/2 weights are squared.
  "declares-the-raw-row": { drawn: (q) => q.map((weight) => times(weight, weight)) },
  "coins-of-eight-bits": { passing: (ratio) => least(ONE, over(raised(times(ratio, GRID)), GRID)) },
  "counts-to-the-last-pass": { goesOn: true },
  "corrects-from-target": { correction: (p) => p },
  "accepts-everything": { passing: () => ONE },
  "coin-compared-backwards": { passing: (ratio) => minus(ONE, least(ONE, ratio)) },
};

/** Return the steps of a verifier with a bug, or with none. */
export const stepsOf = (bug) => ({ ...RIGHT, ...BUGS[bug] });

/** Return the smallest whole number that is not below a fraction. */
function raised({ above, below }) {
  return fraction((above + below - 1n) / below);
}

/** Draw a path. */
export function drafted({ length, draft }, chance, own = RIGHT) {
  const path = [];
  while (path.length < length) path.push(chance.draw(own.drawn(draft(path))));
  return path;
}

/** Accept each token with probability min(1, p/q); at the first rejection draw from the excess. */
export function token(path, instance, chance, own = RIGHT) {
  let accepted = 0;
  for (const [i, drawn] of path.entries()) {
    const [p, q] = [instance.target(path.slice(0, i)), instance.draft(path.slice(0, i))];
    if (chance.coin(own.passing(over(p[drawn], q[drawn])))) accepted = i + 1;
    else if (!own.goesOn) break;
  }
  let law = own.last(own, path, accepted, instance);
  if (isZero(total(law))) law = instance.target(path.slice(0, accepted));
  return { accepted: path.slice(0, accepted), next: chance.draw(law) };
}

/** Keep the longest prefix that the target can afford, then correct. */
export function block(path, { length, target, draft }, chance) {
  const rows = (i) => [target(path.slice(0, i)), draft(path.slice(0, i))];
  const weight = [ONE];
  for (const [i, drawn] of path.entries()) {
    const [p, q] = rows(i);
    weight.push(least(ONE, over(times(weight[i], p[drawn]), q[drawn])));
  }
  const passing = (i) => {
    if (i === length) return weight[i];
    const mass = total(excess(...rows(i), weight[i]));
    const against = plus(mass, minus(ONE, weight[i]));
    return isZero(against) ? ONE : over(mass, against);
  };
  let accepted = length;
  while (accepted > 0 && !chance.coin(passing(accepted))) accepted -= 1;
  const law = accepted === length ? target(path) : excess(...rows(accepted), weight[accepted]);
  return { accepted: path.slice(0, accepted), next: chance.draw(law) };
}

/** Return the program that drafts and verifies; its outcome is a text such as "0,2|1". */
export function iteration(instance, verify, own = RIGHT) {
  return (chance) => {
    const { accepted, next } = verify(drafted(instance, chance, own), instance, chance, own);
    return `${accepted}|${next}`;
  };
}

/** Return the tokens of an outcome. */
export function emittedBy(outcome) {
  return outcome.split(/[,|]/).filter(Boolean).map(Number);
}

/** Return the number of accepted tokens of an outcome. */
export const acceptedBy = (outcome) => emittedBy(outcome).length - 1;

/** Return E[accepted length] of a law of outcomes. */
export function expectedAccepted(law) {
  return total([...law].map(([outcome, weight]) => times(weight, fraction(acceptedBy(outcome)))));
}

/** Return the text of L + 1 tokens that begins with these, continued by the target. */
export function continued(tokens, { length, target }, chance) {
  const text = [...tokens];
  while (text.length <= length) text.push(chance.draw(target(text)));
  return text;
}

/** Return the law of the text of L + 1 tokens after an iteration with this law. */
export function textLaw(emitted, instance) {
  const law = new Map();
  for (const [outcome, weight] of emitted) {
    for (const [text, share] of lawOf((chance) => `${continued(emittedBy(outcome), instance, chance)}`)) {
      law.set(text, plus(law.get(text) ?? ZERO, times(weight, share)));
    }
  }
  return law;
}

/** Return the target's law of the text of L + 1 tokens. */
export const targetLaw = (instance) => lawOf((chance) => `${continued([], instance, chance)}`);

/** Return the row of the token at a place of the text. */
export function rowAt(law, place, vocabulary) {
  const row = Array(vocabulary).fill(ZERO);
  for (const [text, weight] of law) {
    const drawn = Number(text.split(",")[place]);
    row[drawn] = plus(row[drawn], weight);
  }
  return row;
}

/** Return the total variation distance of two laws. */
export function apart(a, b) {
  const texts = [...new Set([...a.keys(), ...b.keys()])];
  const row = (law) => texts.map((text) => law.get(text) ?? ZERO);
  return distance(row(a), row(b));
}

/** Return whether a weight is larger than another one, -1, 0 or 1. */
export const compared = (a, b) => (isBelow(a, b) ? -1 : isBelow(b, a) ? 1 : 0);
