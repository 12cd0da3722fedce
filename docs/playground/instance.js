// The instance on the page: its sizes and rows, as the controls, the link and the reference have it.
//
// A row is kept as it was written, a list of texts such as "1/3". Whether it is a distribution the
// reference says. Contexts are texts such as "0,1", as in the reference's JSON.

export const MOST = { V: 4, L: 3, K: 3 };
export const SCHEMES = {
  iid: "independent",
  without_replacement: "without replacement",
  hub: "hub",
  greedy: "greedy",
};

const START = { 1: ["1"], 2: ["1/3", "2/3"], 3: ["1/6", "1/3", "1/2"], 4: ["1/12", "1/6", "1/4", "1/2"] };

export class Malformed extends Error {}

/** Return an instance of one row for all contexts: p rising, q falling. */
export function plain(V, { L, K, scheme, each }) {
  return filled({ V, L, K, scheme, each, target: { "": START[V] }, draft: { "": START[V].toReversed() } });
}

/** Return the contexts of at most `depth` tokens, short ones first. */
export function contexts(V, depth) {
  const all = [""];
  for (let size = 1, level = [""]; size <= depth; size++) {
    level = level.flatMap((context) =>
      Array.from({ length: V }, (_, token) => (context === "" ? `${token}` : `${context},${token}`)),
    );
    all.push(...level);
  }
  return all;
}

/** Return the instance with a row in every context that it can need, that of the start by default. */
export function filled(instance) {
  const rowsOf = (rows, size) =>
    Object.fromEntries(
      (instance.each ? contexts(instance.V, size) : [""]).map((c) => [c, rows[c] ?? rows[""]]),
    );
  const { L } = instance;
  return { ...instance, target: rowsOf(instance.target, L), draft: rowsOf(instance.draft, L - 1) };
}

/** Return the instance as the reference reads it. */
export function toDocument({ V, L, K, scheme, each, target, draft }) {
  const rows = (model) => (each ? model : model[""]);
  return { vocabulary: V, length: L, drafts: K, scheme, target: rows(target), draft: rows(draft) };
}

/** Return the instance of a document that the reference reads. */
export function fromDocument({ vocabulary, length, drafts, scheme, target, draft }) {
  const each = !Array.isArray(target);
  const rows = (model) => (each ? model : { "": model });
  return { V: vocabulary, L: length, K: drafts, scheme, each, target: rows(target), draft: rows(draft) };
}

/** Return the fragment of a link to the instance, without "#". */
export function toFragment({ V, L, K, scheme, each, target, draft }) {
  const rows = (name, model) =>
    contexts(V, L).filter((context) => context in model).map((context) => {
      const key = context === "" ? name : `${name}.${context.replaceAll(",", ".")}`;
      return `${key}=${model[context].map(encodeURIComponent).join(",").replaceAll("%2F", "/")}`;
    });
  const sizes = [`V=${V}`, `L=${L}`, `K=${K}`, `scheme=${scheme}`, `rows=${each ? "each" : "one"}`];
  return [...sizes, ...rows("p", target), ...rows("q", draft)].join("&");
}

/** Return the instance of a fragment. Throws `Malformed`, which says what is wrong with it. */
export function fromFragment(fragment) {
  const given = new Map();
  for (const part of fragment.split("&")) {
    const [key, value, ...more] = part.split("=");
    if (value === undefined || more.length) {
      throw new Malformed(`“${part}” is not of the form name=value`);
    }
    if (given.has(key)) {
      throw new Malformed(`“${key}” is given twice`);
    }
    given.set(key, value);
  }
  const taken = (key, allowed) => {
    const value = given.get(key);
    if (value === undefined) throw new Malformed(`“${key}” is missing`);
    if (!allowed.includes(value)) {
      throw new Malformed(`“${key}” must be one of ${allowed.join(", ")}, it is “${value}”`);
    }
    given.delete(key);
    return value;
  };
  const size = (key) => Number(taken(key, Array.from({ length: MOST[key] }, (_, i) => `${i + 1}`)));
  const sizes = { V: size("V"), L: size("L"), K: size("K") };
  const scheme = taken("scheme", Object.keys(SCHEMES));
  const each = taken("rows", ["one", "each"]) === "each";
  const models = { p: {}, q: {} };
  for (const [key, value] of given) {
    const [name, ...tokens] = key.split(".");
    const context = tokens.join(",");
    const known = each ? contexts(sizes.V, name === "p" ? sizes.L : sizes.L - 1) : [""];
    if (!(name in models) || !known.includes(context)) {
      throw new Malformed(`“${key}” names no row of this instance`);
    }
    models[name][context] = decoded(value).split(",");
  }
  for (const [name, rows] of Object.entries(models)) {
    if (!rows[""]) throw new Malformed(`“${name}” is missing: the row at the start`);
  }
  return filled({ ...sizes, scheme, each, target: models.p, draft: models.q });
}

function decoded(value) {
  try {
    return decodeURIComponent(value);
  } catch {
    throw new Malformed(`“${value}” is not percent-encoded as addresses are`);
  }
}

/** Return about what a text such as "1/3" says, for a slider to stand there. */
export function roughly(text = "0") {
  const [above, below = 1] = text.split("/").map(Number);
  return Number.isFinite(above / below) ? above / below : 0;
}

/** Return the row, a multiple of 1/steps for every token, after one slider has moved.
 *
 * `base` is the row as it was when this slider was taken up: the others keep its proportions, so
 * that a slider that goes back brings them back.
 */
export function moved(base, token, count, steps) {
  const weights = base.map((text, i) => (i === token ? 0 : Math.max(0, roughly(text))));
  const sum = weights.reduce((a, b) => a + b, 0);
  const others = base.length - 1;
  const shares = weights.map((w, i) => {
    if (i === token) return 0;
    return (steps - count) * (sum > 0 ? w / sum : 1 / others);
  });
  const counts = shares.map((share) => Math.floor(share + 1e-9));
  // What rounding down has left goes to the largest remainders, of equals to the first.
  const order = shares.map((_, i) => i).filter((i) => i !== token);
  order.sort((i, j) => shares[j] - counts[j] - (shares[i] - counts[i]) || i - j);
  let left = steps - count - counts.reduce((a, b) => a + b, 0);
  for (const i of order) {
    if (left-- > 0) counts[i] += 1;
  }
  counts[token] = others ? count : steps;
  return counts.map((n) => fraction(n, steps));
}

/** Return the row with every token somewhere on the grid, by chance. */
export function random(V, steps) {
  const cuts = Array.from({ length: V - 1 }, () => Math.floor(Math.random() * (steps + 1)));
  const edges = [0, ...cuts.sort((a, b) => a - b), steps];
  return edges.slice(1).map((edge, i) => fraction(edge - edges[i], steps));
}

/** Return the reduced fraction, as the reference writes it. */
export function fraction(above, below) {
  const divisor = greatest(above, below);
  return below === divisor ? `${above / divisor}` : `${above / divisor}/${below / divisor}`;
}

function greatest(a, b) {
  return b === 0 ? a : greatest(b, a % b);
}
