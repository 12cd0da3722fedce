// Block verification, asked by draftproof over stdin and stdout (spec, chapter 13).
//
//     draftproof certify --harness 'node block.mjs'
//
// JavaScript's numbers are doubles, and so are the rows and the noise that it asks for.
//
// Copy it, and put your own verifier in the place of verify(): the rest is the protocol.

import { createInterface } from "node:readline";

const declaration = {
  protocol: 1,
  name: "javascript-block",
  version: "1.0",
  algorithm: "block",
  tensors: "numbers",
  dtype: "float64",
  noise: { coins: ["uniform", "L"], token: ["uniform"] },
};

// --- the verifier ------------------------------------------------------------------------------

// Test every prefix on a coin of its own, keep the longest that passes, correct after it.
//
// `drafted` has L tokens, `q` the draft's rows [L][V], `p` the target's [L + 1][V], `coins` [L]
// are uniform on [0, 1), and so is `u`. Source: arXiv 2403.10444, Algorithm 2.
function verify(drafted, q, p, coins, u) {
  const length = drafted.length;
  const weight = [1];
  drafted.forEach((token, i) => {
    weight.push(Math.min(1, (weight[i] * p[i][token]) / q[i][token]));
  });
  // What the target still wants after i accepted tokens.
  const excess = (i) => p[i].map((x, token) => Math.max(0, weight[i] * x - q[i][token]));

  let accepted = length;
  for (; accepted > 0; accepted--) {
    let passing = weight[length];
    if (accepted < length) {
      const mass = sum(excess(accepted));
      const against = mass + 1 - weight[accepted];
      passing = against > 0 ? mass / against : 1;
    }
    // Strictly: a coin of exactly 0 must not accept what the target never says.
    if (coins[accepted - 1] < passing) break;
  }
  const wanted = accepted === length ? p[length] : excess(accepted);
  // Nothing is wanted only where p and q differ by rounding.
  return { accepted, next: draw(wanted.some((w) => w > 0) ? wanted : p[accepted], u) };
}

// The first token at which the running sum exceeds u times the sum: one of probability w / sum.
function draw(weights, u) {
  const mark = u * sum(weights);
  let last = 0;
  let running = 0;
  for (let token = 0; token < weights.length; token++) {
    if (weights[token] > 0) {
      last = token;
      running += weights[token];
      if (running > mark) break;
    }
  }
  return last;
}

function sum(numbers) {
  let total = 0;
  for (const each of numbers) total += each;
  return total;
}

// --- the protocol ------------------------------------------------------------------------------

// Throws unless the request is what it must be: invalid input is answered with an error.
function check({ rows, length, vocabulary, draft_tokens, draft_probs, target_probs }) {
  for (let b = 0; b < rows; b++) {
    const where = (name) => `${name} of row ${b}`;
    requireLength(draft_tokens[b], 1, where("draft_tokens"));
    requireLaws(draft_probs[b], length, vocabulary, where("draft_probs"));
    requireLaws(target_probs[b], length + 1, vocabulary, where("target_probs"));
    draft_tokens[b][0].forEach((token, i) => {
      if (!(token >= 0 && token < vocabulary))
        throw new Error(`drafted token ${token} is not in 0..${vocabulary - 1}`);
      if (!(draft_probs[b][0][i][token] > 0))
        throw new Error(`drafted token ${token} has probability 0`);
    });
  }
}

function requireLaws(paths, length, vocabulary, name) {
  requireLength(paths, 1, name);
  requireLength(paths[0], length, name);
  for (const row of paths[0]) {
    requireLength(row, vocabulary, name);
    // NaN comes as a string, and is not >= 0, either.
    const wrong = row.find((x) => !(x >= 0));
    if (wrong !== undefined) throw new Error(`${name}: ${wrong} is no probability`);
    // What a softmax in float32 is off by, at most: one rounding for every token.
    if (!(Math.abs(sum(row) - 1) <= vocabulary * 2 ** -24))
      throw new Error(`${name}: a row sums to ${sum(row)}, not to 1`);
  }
}

function requireLength(list, length, name) {
  if (list.length !== length) throw new Error(`${name}: ${list.length} where ${length} belong`);
}

function answer(request) {
  const { sequence, rows, draft_tokens, draft_probs, target_probs, noise } = request;
  try {
    check(request);
    const result = { sequence, accepted_length: [], path: [], next_token: [] };
    for (let b = 0; b < rows; b++) {
      const emission = verify(
        draft_tokens[b][0],
        draft_probs[b][0],
        target_probs[b][0],
        noise.coins[b],
        noise.token[b],
      );
      result.accepted_length.push(emission.accepted);
      result.path.push(0);
      result.next_token.push(emission.next);
    }
    return { result };
  } catch (error) {
    return { error: { sequence, message: error.message } };
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  const message = JSON.parse(line);
  if ("stop" in message) break;
  const said = "start" in message ? { declaration } : answer(message.verify);
  process.stdout.write(`${JSON.stringify(said)}\n`);
}
process.exit(0);
