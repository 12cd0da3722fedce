// Where in the story the page is: a fragment such as "step=break&bug=bonus-from-draft".

export const STEPS = {
  models: "Two models",
  coin: "One coin at a time",
  runs: "A thousand runs",
  break: "Break it",
  block: "A whole block",
};

/** The most runs that are made at once. */
export const MOST_RUNS = 10_000;

/** Return whether a fragment is the story's. */
export const isStory = (fragment) => fragment.startsWith("step=");

/** Return the place that a fragment names. Throws an `Error`, which says what is wrong with it. */
export function placeOf(fragment, { words, bugs, seed }) {
  const given = new URLSearchParams(fragment);
  const named = (key, known, start) => {
    const value = given.get(key) ?? start;
    if (!known.includes(value)) throw new Error(`“${key}” must be one of ${known.filter(Boolean).join(", ")}; it is “${value}”`);
    return value;
  };
  const counted = (key, start, most) => {
    const text = given.get(key) ?? `${start}`;
    if (!/^\d{1,9}$/.test(text) || Number(text) > most) {
      throw new Error(`“${key}” must be a whole number up to ${most}; it is “${text}”`);
    }
    return Number(text);
  };
  return {
    step: named("step", Object.keys(STEPS), "models"),
    after: named("after", ["", ...words], ""),
    seed: counted("seed", seed, 999_999_999),
    at: counted("at", 0, 99),
    n: counted("n", 0, MOST_RUNS),
    bug: named("bug", ["", ...bugs.map(({ id }) => id)], ""),
  };
}

const SHOWN = { models: ["after"], coin: ["seed", "at"], runs: ["seed", "n"], break: ["bug"], block: [] };

/** Return the fragment of a place: what its step shows. */
export function fragmentOf(place) {
  const keys = SHOWN[place.step].filter((key) => place[key] !== "");
  return ["step", ...keys].map((key) => `${key}=${place[key]}`).join("&");
}
