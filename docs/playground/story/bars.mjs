// Bars of rows of probabilities, with the words that stand for them.
import { float, isZero, written } from "./exact.mjs";
import { h } from "../element.js";

/** Where each bar ended last, so that it moves from there. */
const widths = new Map();

/** Return a bar: parts {kind, value} one behind the other, on a scale that ends at `most`. */
function bar(key, parts, most) {
  const drawn = parts.map(({ kind, value }, i) => {
    const own = h("span", { class: `st-part st-${kind}` });
    const [place, width] = [`${key} ${i}`, `${(100 * value) / most}%`];
    own.style.width = widths.get(place) ?? width;
    widths.set(place, width);
    if (own.style.width !== width) requestAnimationFrame(() => requestAnimationFrame(() => (own.style.width = width)));
    return own;
  });
  return h("span", { class: "st-bar" }, drawn);
}

/** Return a figure of bars: rows {word, bars: [{name, parts, mark, told}], kind, note}.
 *
 * Its label says all of it in words. `most` is the probability at which the scale ends.
 */
export function bars(key, title, rows, { most = 1 } = {}) {
  const label = rows
    .map(({ word, bars: own, note }) => {
      const told = own.map(({ name, told: number }) => [name, number].filter(Boolean).join(" "));
      return `${word}: ${told.join(", ")}${note ? `, ${note}` : ""}`;
    })
    .join("; ");
  return h(
    "figure",
    { class: "st-figure", role: "img", "aria-label": `${title}. ${label}` },
    h("figcaption", {}, title),
    rows.map(({ word, bars: own, kind, note }) =>
      h(
        "div",
        { class: `st-row ${kind ? `st-row-${kind}` : ""}` },
        h("span", { class: "st-word" }, word),
        h(
          "span",
          { class: "st-bars" },
          own.map(({ parts, mark, told, name }, i) => {
            const drawn = bar(`${key} ${word} ${i}`, parts, most);
            if (mark !== undefined) {
              const line = h("span", { class: "st-mark" });
              line.style.left = `${(100 * mark) / most}%`;
              drawn.append(line);
            }
            return h("span", { class: `st-line st-of-${name ?? ""}` }, drawn, h("span", { class: "st-number" }, told));
          }),
          note ? h("span", { class: "st-note" }, note) : null,
        ),
      ),
    ),
  );
}

/** Return a fraction in words: exact, with a decimal where it is none. */
export function both(value) {
  if (value.below === 1n) return written(value);
  return `${written(value)} = ${Number(decimal(float(value)))}`;
}

/** Return a number to four digits behind the point. */
export const decimal = (value) => value.toFixed(4);

/** Return a difference with its sign. */
export const signed = (value) => (isZero(value) ? "" : `${value.above > 0n ? "+" : "−"}${written(value).replace("-", "")}`);
