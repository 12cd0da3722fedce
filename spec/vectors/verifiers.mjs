// Token and block verification in exact rationals, for consumer.mjs: put your own in their place.

// A rational is a numerator over a positive denominator.
export const rational = (text) => [...text.split("/"), "1"].slice(0, 2).map(BigInt);
export const [zero, one] = ["0", "1"].map(rational);
export const add = ([a, b], [c, d]) => [a * d + c * b, b * d];
export const sub = (x, [c, d]) => add(x, [-c, d]);
export const mul = ([a, b], [c, d]) => [a * c, b * d];
export const div = ([a, b], [c, d]) => [a * d, b * c];
export const below = ([a, b], [c, d]) => a * d < c * b;
export const sum = (row) => row.reduce(add, zero);
const max = (x, y) => (below(x, y) ? y : x);

// A verifier yields the weights of what it draws and is told the place that was drawn; place 0 of a
// coin is that it passes. It returns path, accepted length and next token.
const coin = (x) => [x, max(zero, sub(one, x))];
const passes = (place) => place === 0;
const excess = (p, q, scale) => p.map((x, i) => max(zero, sub(mul(scale, x), q[i])));

export const verifiers = {
  *token(path, p, q) {
    for (const [i, x] of path.entries())
      if (!passes(yield coin(div(p[i][x], q[i][x])))) return [0, i, yield excess(p[i], q[i], one)];
    return [0, path.length, yield p[path.length]];
  },
  *block(path, p, q) {
    const weight = [one];
    for (const [i, x] of path.entries()) {
      const share = mul(weight[i], p[i][x]);
      weight.push(div(share, max(q[i][x], share)));
    }
    if (passes(yield coin(weight[path.length]))) return [0, path.length, yield p[path.length]];
    for (let i = path.length - 1; ; i--) {
      const owed = excess(p[i], q[i], weight[i]);
      const against = add(sum(owed), sub(one, weight[i]));
      const keeps = () => coin(below(zero, against) ? div(sum(owed), against) : one);
      if (i === 0 || passes(yield keeps())) return [0, i, yield owed];
    }
  },
};
