// What was computed, as a table with bars, and what stands behind each row of it.
import { h } from "./element.js";

const OPTIMA = {
  stateless: "No verifier that leaves later targets unchanged accepts more",
  stateful: "No verifier accepts more",
};

// Fractions with more characters are shown when they are asked for.
const LONG = 32;

/** Return a number as it is, and as a decimal. */
export function number([exact, decimal]) {
  if (exact.length > LONG) {
    const digits = exact.length - exact.indexOf("/") - 1;
    return h(
      "details",
      { class: "pg-long" },
      h("summary", {}, decimal, h("span", { class: "pg-tag" }, `${digits} digits`)),
      exact,
    );
  }
  const [above, below] = exact.split("/");
  return h(
    "span",
    { class: "pg-number" },
    // A line may end after the stroke.
    h("span", { class: "pg-exact" }, below ? [`${above}/`, h("wbr"), below] : above),
    below ? h("span", { class: "pg-decimal" }, decimal) : null,
  );
}

/** Return what has been found of an instance so far, to which news are added. */
export const nothing = () => ({ found: new Map(), shares: {}, running: {}, waiting: [], isNew: true });

/** Return the state with the news of the worker in it. */
export function heard(state, news) {
  for (const result of news.results) {
    if (result.kind === "instance") state.around = result;
    else state.found.set(result.name, result);
  }
  Object.assign(state.shares, news.shares);
  const { running = {}, waiting = [], seconds = 0, unknown = 0, finished = true } = news;
  return Object.assign(state, { running, waiting, seconds, unknown, finished, isNew: false });
}

/** Return the algorithms' results, the largest first, and after them the names still to come. */
export function ranked(state) {
  const found = [...state.found.values()].filter((result) => result.kind === "algorithm");
  found.sort((a, b) => b.value - a.value);
  const coming = [...Object.keys(state.running), ...state.waiting];
  return { found, coming: [...new Set(coming)].filter((name) => !state.found.has(name)) };
}

/** Bring the table up to date, keeping its rows and the focus where they are. */
export function show(table, state, { length, chosen, choose, detail }) {
  const focused = table.contains(document.activeElement) ? document.activeElement.id : null;
  const { found, coming } = ranked(state);
  const optima = Object.keys(OPTIMA).filter((name) => state.found.has(name));
  const best = (result) => state.found.get(result.stateful ? "stateful" : "stateless");
  const [algorithms, bounds] = table.tBodies;
  const rows = (results) =>
    results.flatMap((result) => {
      const isOpen = result.name === chosen;
      const row = h(
        "tr",
        { class: isOpen ? "pg-open" : null },
        h("th", { scope: "row" }, opener(result, isOpen, choose), bar(result, best(result), length)),
        h("td", {}, number(result.expected)),
        h("td", {}, share(state, result)),
        h("td", {}, verdict(result)),
      );
      const below = h("tr", { class: "pg-detail", id: `pg-detail-${result.name}` });
      if (isOpen) below.append(h("td", { colspan: "4" }, detail(result)));
      return isOpen ? [row, below] : [row];
    });
  algorithms.replaceChildren(...rows(found), ...coming.filter((name) => !(name in OPTIMA)).map((name) => pending(state, name)));
  bounds.replaceChildren(
    ...rows(optima.map((name) => state.found.get(name))),
    ...coming.filter((name) => name in OPTIMA).map((name) => pending(state, name)),
  );
  if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
}

function opener(result, isOpen, choose) {
  const title = result.title ?? `The ${result.name} optimum`;
  return h(
    "button",
    {
      type: "button",
      id: `pg-row-${result.name}`,
      "aria-expanded": `${isOpen}`,
      "aria-controls": isOpen ? `pg-detail-${result.name}` : null,
      click: () => choose(isOpen ? null : result.name),
    },
    title,
    result.stateful ? h("span", { class: "pg-tag" }, "stateful") : null,
  );
}

function bar(result, best, length) {
  const part = ({ value }) => `${(100 * value) / length}%`;
  const track = h("span", { class: `pg-bar pg-${result.kind}`, "aria-hidden": "true" });
  track.style.setProperty("--part", part(result));
  if (best && result.kind === "algorithm") {
    track.append(h("span", { class: "pg-mark" }));
    track.style.setProperty("--best", part(best));
  }
  return track;
}

function share(state, result) {
  if (result.kind === "optimum") return "";
  const of = state.shares[result.name];
  if (!of) return h("span", { class: "pg-quiet", title: "The optimum is not computed yet" }, "…");
  const title = `${of[0].length > LONG ? of[1] : of[0]} of the ${result.stateful ? "stateful" : "stateless"} optimum`;
  return h("span", { title }, `${(100 * Number(of[1])).toFixed(1).replace(/\.0$/, "")} %`);
}

function verdict(result) {
  if (result.kind === "optimum") {
    return h("span", { class: "pg-yes", title: "Your browser has checked the certificate by addition" }, "checked");
  }
  return result.lossless
    ? h("span", { class: "pg-yes" }, "yes")
    : h("span", { class: "pg-no" }, "no");
}

function pending(state, name) {
  const part = state.running[name];
  const title = state.around?.titles[name] ?? `The ${name} optimum`;
  const told = part === undefined ? "waits" : part > 0 ? `${Math.floor(100 * part)} %` : "…";
  return h(
    "tr",
    { class: "pg-pending" },
    h("th", { scope: "row" }, title),
    h("td", { colspan: "3" }, told),
  );
}

const words = (tokens) => (tokens.length ? tokens.join(" ") : "none");

/** Return a table of a law: rows of cells, the last of which is a probability. */
function lawTable(label, head, rows) {
  return h(
    "div",
    { class: "pg-scroll", tabindex: "0", role: "region", "aria-label": label },
    h(
      "table",
      { class: "pg-law" },
      h("thead", {}, h("tr", {}, head.map((title) => h("th", { scope: "col" }, title)))),
      h(
        "tbody",
        {},
        rows.map((cells) => h("tr", {}, cells.map((cell) => h("td", {}, Array.isArray(cell) ? number(cell) : cell)))),
      ),
    ),
  );
}

/** Return what stands behind an algorithm: its law, on all drafts or on some, and the text's. */
export function lawOf(result, state, { K, L, drafts, choose, told }) {
  const whole = result.law.map(([accepted, next, p]) => [words(accepted), `${next}`, p]);
  const law =
    drafts === null
      ? lawTable("Emissions over all drafts", ["accepted", "next token", "probability"], whole)
      : onDrafts(told, K);
  const equal = result.texts.every(([, emitted, [wanted]]) => emitted === wanted);
  const count = `${result.texts.length} texts of ${L + 1} tokens`;
  return h(
    "div",
    { class: "pg-behind" },
    h(
      "p",
      { class: "pg-quiet" },
      result.source === "draftproof" ? "Ours" : result.source,
      " · ",
      h("a", { href: `../explanation/algorithms/${result.name}/` }, "how it works"),
    ),
    h(
      "div",
      { class: "pg-columns" },
      h("section", {}, h("h4", {}, "Emissions of one iteration"), selectors(state, drafts, K, choose), law),
      h(
        "section",
        {},
        h("h4", {}, "The text, continued by the target"),
        h("p", {}, equal ? `Each of the ${count} has the target's probability.` : `Some of the ${count} do not have the target's probability.`),
        lawTable(
          "The distribution of the text and the target's",
          ["text", "emitted", "target"],
          result.texts.map(([text, emitted, wanted]) => [words(text), emitted, wanted]),
        ),
      ),
    ),
  );
}

function onDrafts(told, K) {
  if (!told) return h("p", { class: "pg-quiet", role: "status" }, "…");
  if (told.error) return h("p", { class: "pg-error" }, told.error.message);
  const head = ["accepted", "next token", ...(K > 1 ? ["on path"] : []), "probability"];
  const rows = told.law.map(([accepted, next, path, p]) => [
    words(accepted),
    `${next}`,
    ...(K > 1 ? [`${path + 1}`] : []),
    p,
  ]);
  return lawTable("Emissions on these drafts", head, rows);
}

/** Return the controls that say which drafts: all there can be, or a path each. */
function selectors(state, drafts, K, choose) {
  const { paths, draft } = state.around;
  const option = (value, text, selected) => h("option", { value, selected }, text);
  const mode = h(
    "select",
    { id: "pg-drafts", change: (event) => choose(event.target.value === "all" ? null : draft) },
    option("all", "all drafts together", drafts === null),
    option("one", K > 1 ? "these paths" : "this path", drafts !== null),
  );
  const path = (k) => {
    const at = (drafts ?? draft)[k];
    const set = (event) => {
      const changed = [...drafts];
      const chosen = event.target.value;
      if (chosen === "") changed.splice(k);
      else changed[k] = chosen.split(",").map(Number);
      choose(changed);
    };
    return h(
      "select",
      { id: `pg-path-${k}`, "aria-label": `Path ${k + 1}`, change: set },
      k > 0 ? option("", "none", at === undefined) : null,
      paths.map((tokens) => option(`${tokens}`, words(tokens), `${at}` === `${tokens}`)),
    );
  };
  const shown = drafts === null ? [] : Array.from({ length: Math.min(K, drafts.length + 1) }, (_, k) => path(k));
  return h("div", { class: "pg-drafts" }, h("label", { for: "pg-drafts" }, "Given "), mode, shown);
}

/** Return what proves an optimum. */
export function certificateOf(result) {
  return h(
    "div",
    { class: "pg-behind" },
    h(
      "p",
      {},
      `${OPTIMA[result.name]}. The budget A(x) is the probability that the accepted tokens start with x; ` +
        "it is within the target's and the drafts' bounds, and sums to the optimum. The prices s and t of these " +
        "bounds charge no verifier less than it accepts, and have the same sum, which proves the optimum.",
    ),
    h(
      "div",
      { class: "pg-columns" },
      h(
        "section",
        {},
        h("h4", {}, "Budget and prices"),
        lawTable(
          "Budget and prices, prefix by prefix",
          ["prefix x", "price s", "price t", "budget A"],
          result.certificate.map(([prefix, budget, s, t]) => [words(prefix), s, t, budget]),
        ),
      ),
      h(
        "section",
        {},
        h("h4", {}, "The selected draft"),
        h("p", {}, "The highest-ranked one, by these orders of paths, the lowest first."),
        lawTable(
          "Orders of paths and their weights",
          ["order", "weight"],
          result.selection.map(([weight, order]) => [
            order.map((path) => path.replaceAll(",", " ")).join(" < "),
            weight,
          ]),
        ),
      ),
    ),
  );
}
