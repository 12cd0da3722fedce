// The story of speculative decoding, step by step. It needs nothing but this script.
import {
  ONE,
  ZERO,
  dice,
  distance,
  excess,
  float,
  isBelow,
  isEqual,
  isZero,
  lawOf,
  least,
  minus,
  normalised,
  numbers,
  over,
  total,
  written,
} from "./exact.mjs";
import {
  apart,
  block,
  continued,
  drafted,
  emittedBy,
  expectedAccepted,
  instanceOf,
  iteration,
  rowAt,
  stepsOf,
  targetLaw,
  textLaw,
  token,
} from "./verification.mjs";
import { expectedDistance, pooled, usualTry, usuallyEmitted } from "./sampling.mjs";
import { MOST_RUNS, STEPS, fragmentOf, isStory, placeOf } from "./link.mjs";
import { bars, both, decimal, signed } from "./bars.mjs";
import { h } from "../element.js";

/** So many tries of the usual test are made of each bug. */
const TRIES = 20;

/** Tell a story in an element. */
export function tell(element, story) {
  const { prompt, words, bugs, usual } = story;
  const instance = instanceOf(story);
  const V = words.length;
  const PLACES = Array.from({ length: instance.length + 1 }, (_, i) => i);
  const right = targetLaw(instance);
  const known = new Map();
  let place = placeOf("", story);
  let runs = null;
  let isAnimated = false;

  // What is announced stays where it is while everything else is made anew.
  const stage = h("div");
  const live = h("p", { class: "st-live", role: "status" });
  element.replaceChildren(stage, live);

  const said = (tokens) => tokens.map((drawn) => words[drawn]).join(" ");
  const row = (model) => model(place.after === "" ? [] : [words.indexOf(place.after)]);

  // --- where the page is ------------------------------------------------------------------------

  function go(changes) {
    place = { ...place, ...changes };
    history.replaceState(null, "", `#${fragmentOf(place)}`);
    show();
  }

  function read() {
    const fragment = decodeURIComponent(location.hash.slice(1).replace(/%(?![0-9a-f]{2})/gi, "%25"));
    let complaint = "";
    if (isStory(fragment)) {
      try {
        place = placeOf(fragment, story);
      } catch (error) {
        place = placeOf("", story);
        complaint = `The link cannot be read: ${error.message}. Shown is the first step.`;
      }
    }
    show(complaint);
  }

  function show(complaint = "") {
    const focused = stage.contains(document.activeElement) ? document.activeElement.id : null;
    const steps = Object.keys(STEPS);
    const now = steps.indexOf(place.step);
    const link = (step, text, attributes = {}) => h("a", { href: `#${fragmentOf({ ...placeOf("", story), step })}`, ...attributes }, text);
    stage.replaceChildren(
      h(
        "nav",
        { "aria-label": "Steps of the story" },
        h(
          "ol",
          { class: "st-steps" },
          steps.map((step, i) =>
            h("li", {}, link(step, [h("b", {}, `${i + 1}`), ` ${STEPS[step]}`], { id: `st-step-${step}`, "aria-current": i === now ? "step" : null })),
          ),
          h("li", {}, h("a", { href: "#now-exactly" }, h("b", {}, `${steps.length + 1}`), " Now exactly")),
        ),
      ),
      h("p", { class: "pg-error", role: "alert" }, complaint),
      h("div", { class: "st-stage", "data-step": place.step }, SCENES[place.step]()),
      h(
        "p",
        { class: "st-turn" },
        now > 0 ? link(steps[now - 1], `← ${STEPS[steps[now - 1]]}`) : h("span"),
        now < steps.length - 1
          ? link(steps[now + 1], `${STEPS[steps[now + 1]]} →`, { class: "st-on" })
          : h("a", { href: "#now-exactly", class: "st-on" }, "Now exactly →"),
      ),
    );
    const announced = [...stage.querySelectorAll(".st-told, .st-exact")].map((each) => each.innerText).join(" ");
    if (live.textContent !== announced && !isAnimated) live.textContent = announced;
    if (focused === null) return;
    // The links to the next step and back are gone with their step.
    const heading = stage.querySelector("h2");
    const again = focused && stage.querySelector(`#${focused}`);
    (again && !again.disabled ? again : heading).focus({ preventScroll: true });
    if (!focused && element.getBoundingClientRect().top < 0) element.scrollIntoView();
  }

  const button = (id, text, click, attributes = {}) => h("button", { type: "button", id: `st-${id}`, click, ...attributes }, text);
  const legend = (entries) =>
    h("p", { class: "st-legend" }, entries.map(([kind, text]) => h("span", {}, h("i", { class: `st-part st-${kind}` }), ` ${text}`)));
  const p = (...content) => h("p", {}, ...content);
  const strong = (text) => h("strong", {}, text);

  /** Return draft and target in one context, and what they share. */
  function models(title, target, draft, drawn) {
    const rows = words.map((word, i) => {
      const shared = float(least(target[i], draft[i]));
      const own = (weight, name) => ({
        name,
        told: written(weight),
        parts: [
          { kind: `${name}-shared`, value: shared },
          { kind: `${name}-more`, value: float(weight) - shared },
        ],
      });
      return { word, kind: i === drawn ? "drawn" : "", bars: [own(draft[i], "draft"), own(target[i], "target")] };
    });
    return bars("models", title, rows);
  }

  // --- 1: two models ----------------------------------------------------------------------------

  function modelsScene() {
    const [target, draft] = [row(instance.target), row(instance.draft)];
    const shared = total(target.map((own, i) => least(own, draft[i])));
    const text = [prompt, place.after].filter(Boolean).join(" ");
    return [
      h("h2", { tabindex: "-1" }, "Two models guess the next word"),
      p(
        "A large language model, the ", strong("target"), ", writes text word by word, and every word costs one slow pass. A small model, the ",
        strong("draft"), ", is fast and often agrees with the target. In speculative decoding the draft proposes a few words, and the target checks them all in one pass. " +
        "The text should have exactly the target's distribution.",
      ),
      h(
        "div",
        { class: "st-choice", role: "group", "aria-label": "The text so far" },
        h("span", {}, "The text so far: "),
        ["", ...words].map((word) =>
          button(`after-${word || "start"}`, [prompt, word].filter(Boolean).join(" "), () => go({ after: word }), { "aria-pressed": `${place.after === word}` }),
        ),
      ),
      models(`The word after “${text} …”`, target, draft),
      legend([["draft-shared", "draft q"], ["target-shared", "target p"], ["draft-more", "too much in the draft"], ["target-more", "missing in the draft"]]),
      p(
        `The solid parts are the probability on which both models agree: min(p, q), in total ${both(shared)}. No verifier can keep a drafted word with a larger probability. ` +
        `The rest, ${both(minus(ONE, shared))}, is drafted too often on some words and too rarely on others. Verification moves exactly this mass.`,
      ),
      h("p", { class: "pg-quiet" }, `The numbers are invented: two models of ${V} words, ${instance.length} drafted words. All numbers on this page are exact fractions.`),
    ];
  }

  // --- 2: one coin at a time --------------------------------------------------------------------

  /** Return what happens in one iteration, event by event. */
  function told(seed) {
    const heard = [];
    const chance = dice(numbers(seed), (answer) => heard.push(answer));
    const path = drafted(instance, chance);
    const { accepted, next } = token(path, instance, chance);
    const events = path.map((_, i) => ({ kind: "draft", i }));
    const coins = heard.slice(path.length, -1);
    for (const [i, { coin }] of coins.entries()) {
      const [target, draft] = [instance.target(path.slice(0, i)), instance.draft(path.slice(0, i))];
      const ratio = over(target[path[i]], draft[path[i]]);
      const own = { i, target, draft, ratio, keep: least(ONE, ratio), coin, passes: i < accepted.length };
      events.push({ kind: "compare", ...own }, { kind: "toss", ...own });
    }
    const i = accepted.length;
    const [target, isBonus] = [instance.target(accepted), i === instance.length];
    if (isBonus) events.push({ kind: "bonus", i, target, next });
    else {
      const left = excess(target, instance.draft(accepted));
      const own = { i, target, draft: instance.draft(accepted), left, next };
      events.push({ kind: "residual", ...own }, { kind: "normalise", ...own }, { kind: "correct", ...own });
    }
    return { path, accepted, next, events };
  }

  function coinScene() {
    const run = told(place.seed);
    const at = Math.min(place.at, run.events.length - 1);
    const event = run.events[at];
    const coming = run.events[at + 1];
    const labels = {
      draft: "Draft one more word",
      compare: "Compare p and q",
      toss: "Toss the coin",
      residual: "Take the residual",
      normalise: "Normalise it",
      correct: "Draw the correction",
      bonus: "Draw the bonus",
    };
    return [
      h("h2", { tabindex: "-1" }, "One coin at a time"),
      p(
        `The draft writes ${instance.length} words. Then each is put to the test: word x is kept with probability min(1, p(x)/q(x)). ` +
        "At the first rejection the test stops, and one word is drawn from what the draft gives too rarely.",
      ),
      sentence(run, at),
      h(
        "div",
        { class: "st-buttons" },
        coming
          ? button("next", labels[coming.kind], () => go({ at: at + 1 }), { class: "pg-main" })
          : button("next", "Another run", () => go({ seed: place.seed + 1, at: 0 }), { class: "pg-main" }),
        button("back", "Back", () => go({ at: at - 1 }), { disabled: at === 0 }),
        coming ? button("end", "To the end", () => go({ at: run.events.length - 1 })) : null,
      ),
      h("p", { class: "st-told" }, saying(event, run)),
      pictured(event, run),
    ];
  }

  function sentence({ path, accepted, next, events }, at) {
    const past = events.slice(0, at + 1);
    const rejected = past.some(({ kind, passes }) => kind === "toss" && !passes) ? accepted.length : path.length;
    const testing = ["compare"].includes(events[at].kind) ? events[at].i : -1;
    const ends = past.some(({ kind }) => kind === "correct" || kind === "bonus");
    const chips = past
      .filter(({ kind }) => kind === "draft")
      .map(({ i }) => {
        const passed = past.some((each) => each.kind === "toss" && each.i === i && each.passes);
        const state = passed ? "kept" : i === rejected ? "rejected" : i > rejected ? "dropped" : i === testing ? "tested" : "drafted";
        return [i, words[path[i]], state];
      });
    const kept = chips.filter(([, , state]) => !ends || state === "kept");
    const gone = chips.filter((chip) => !kept.includes(chip));
    const chip = ([, word, state]) => h("span", { class: `st-chip st-${state}` }, h("span", {}, word), h("small", {}, state));
    return h(
      "p",
      { class: "st-sentence" },
      h("span", { class: "st-prompt" }, prompt),
      kept.map(chip),
      ends ? chip([0, words[next], accepted.length === path.length ? "bonus" : "correction"]) : null,
      gone.length ? h("span", { class: "st-gone" }, gone.map(chip)) : null,
    );
  }

  function saying(event, { path, accepted, next }) {
    const word = (i) => `“${words[path[i]]}”`;
    const text = (count) => `“${[prompt, said(path.slice(0, count))].filter(Boolean).join(" ")}”`;
    const { i, ratio, keep, coin } = event;
    const drawn = () => `${prompt} ${said([...accepted, next])}`;
    const count = accepted.length + 1;
    const end = () => `One pass of the target has written ${count} word${count > 1 ? "s" : ""}: “${drawn()}”.`;
    return {
      draft: () => `After ${text(i)} the draft draws ${word(i)}, by its own probabilities.`,
      compare: () =>
        `Should ${word(i)} be kept? The target gives it p = ${written(event.target[path[i]])}, the draft q = ${written(event.draft[path[i]])}: ` +
        `p/q = ${written(ratio)}. ${isEqual(keep, ONE) ? "The target gives it at least as much, so it is always kept." : `It is kept with probability ${written(keep)}.`}`,
      toss: () =>
        event.passes
          ? `The coin shows ${coin.toFixed(3)}, which is below ${written(keep)}: ${word(i)} is accepted.`
          : `The coin shows ${coin.toFixed(3)}, which is not below ${written(keep)}: ${word(i)} is rejected${i + 1 < path.length ? ", and what was drafted behind it goes with it" : ""}.`,
      residual: () => "What does the target want more often than the draft gives it? The residual max(p − q, 0), word by word. Drawing from p itself would give the shared part twice.",
      normalise: () => `The residual sums to ${written(total(event.left))}. Divided by that, it is a distribution.`,
      correct: () => `The correction is drawn from it: “${words[next]}”. ${end()}`,
      bonus: () => `Everything was accepted. The pass has already computed the target's next row, so one more word comes for free: “${words[next]}”. ${end()}`,
    }[event.kind]();
  }

  function pictured(event, { path, next }) {
    const { i } = event;
    const after = `after “${[prompt, said(path.slice(0, i))].filter(Boolean).join(" ")} …”`;
    if (event.kind === "draft") {
      const rows = instance.draft(path.slice(0, i)).map((weight, w) => one(words[w], weight, "draft-shared", w === path[i]));
      return bars("coin", `Draft q ${after}`, rows);
    }
    if (event.kind === "compare" || event.kind === "toss") {
      return [coinLine(event), models(`Draft q and target p ${after}`, event.target, event.draft, path[i])];
    }
    if (event.kind === "bonus") {
      return bars("coin", `Target p ${after}`, event.target.map((weight, w) => one(words[w], weight, "target-shared", w === next)));
    }
    if (event.kind === "residual") {
      const rows = words.map((word, w) => ({
        word,
        bars: [
          {
            name: "residual",
            told: `max(${written(event.target[w])} − ${written(event.draft[w])}, 0) = ${written(event.left[w])}`,
            parts: [
              { kind: "taken", value: float(minus(event.target[w], event.left[w])) },
              { kind: "target-more", value: float(event.left[w]) },
            ],
          },
        ],
      }));
      return [bars("residual", `Residual ${after}`, rows), legend([["taken", "covered by the draft"], ["target-more", "residual"]])];
    }
    const share = normalised(event.left);
    return bars("coin", `Residual, normalised, ${after}`, share.map((weight, w) => one(words[w], weight, "target-more", event.kind === "correct" && w === next)));
  }

  const one = (word, weight, kind, isDrawn) => ({ word, kind: isDrawn ? "drawn" : "", bars: [{ told: written(weight), parts: [{ kind, value: float(weight) }] }] });

  function coinLine({ keep, coin, kind, passes }) {
    const line = h("span", { class: "st-coin" }, h("span", { class: "st-accept" }, "accept"), h("span", { class: "st-reject" }, "reject"));
    line.style.setProperty("--keep", `${100 * float(keep)}%`);
    line.classList.toggle("st-sure", isEqual(keep, ONE));
    line.classList.toggle("st-never", isZero(keep));
    if (kind === "toss") {
      const mark = h("span", { class: `st-thrown ${passes ? "st-passes" : ""}` });
      mark.style.left = `${100 * coin}%`;
      line.append(mark);
    }
    const label = `The coin's range from 0 to 1: accept below ${written(keep)}, reject above${kind === "toss" ? `; the coin is at ${coin.toFixed(3)}` : ""}`;
    return h("div", { class: "st-toss", role: "img", "aria-label": label }, h("span", {}, "0"), line, h("span", {}, "1"));
  }

  // --- 3: a thousand runs -----------------------------------------------------------------------

  /** Return the runs with this seed; counts are of whole texts. */
  function made(seed) {
    if (runs?.seed !== seed) runs = { seed, chance: dice(numbers(seed)), count: 0, accepted: 0, texts: new Map() };
    return runs;
  }

  function runOnce(own) {
    const tokens = emittedBy(iteration(instance, token)(own.chance));
    const text = `${continued(tokens, instance, own.chance)}`;
    own.texts.set(text, (own.texts.get(text) ?? 0) + 1);
    own.accepted += tokens.length - 1;
    own.count += 1;
  }

  /** Make runs until there are as many as the place says, a few at a time. */
  function makeRuns() {
    if (isAnimated) return;
    isAnimated = true;
    const isStill = matchMedia("(prefers-reduced-motion: reduce)").matches;
    const work = () => {
      const own = made(place.seed);
      const most = Math.max(1, Math.ceil(place.n / 40));
      const end = performance.now() + 20;
      for (let i = 0; (isStill || i < most) && own.count < place.n && performance.now() < end; i++) runOnce(own);
      isAnimated = place.step === "runs" && own.count < place.n;
      if (place.step === "runs" && (!isStill || !isAnimated)) show();
      if (isAnimated) setTimeout(work, isStill ? 0 : 25);
    };
    setTimeout(work);
  }

  function runsScene() {
    const own = made(place.seed);
    if (own.count > place.n) runs = null;
    const { count, texts, accepted } = made(place.seed);
    if (count < place.n) makeRuns();
    const more = (n) => button(`more-${n}`, n === 1 ? "One run" : `${n.toLocaleString("en")} runs`, () => go({ n: Math.min(MOST_RUNS, place.n + n) }), { disabled: place.n >= MOST_RUNS, class: n === 1000 ? "pg-main" : null });
    const share = (weight) => (count ? weight / count : 0);
    const charts = PLACES.map((at) => {
      const seen = Array(V).fill(0);
      for (const [text, times] of texts) seen[Number(text.split(",")[at])] += times;
      const target = rowAt(right, at, V).map(float);
      const rows = words.map((word, w) => ({
        word,
        bars: [{ name: "share", told: decimal(share(seen[w])), mark: target[w], parts: [{ kind: "seen", value: share(seen[w]) }] }],
        note: `target ${decimal(target[w])}`,
      }));
      return { title: `Word ${at + 1}`, figure: bars(`runs ${at}`, `Word ${at + 1}`, rows), seen: seen.map(share), target };
    });
    const cells = [...new Set([...right.keys(), ...texts.keys()])];
    const whole = { title: "Whole text", seen: cells.map((text) => share(texts.get(text) ?? 0)), target: cells.map((text) => float(right.get(text) ?? ZERO)) };
    const far = ({ seen, target }) => seen.reduce((sum, own, i) => sum + Math.abs(own - target[i]), 0) / 2;
    return [
      h("h2", { tabindex: "-1" }, "A thousand runs meet the target"),
      p(
        `Now repeat the run many times. Each run drafts, tosses and corrects as before; if it ends before ${PLACES.length} words, the target continues. ` +
        "Bars are shares of the runs, marks are the target's probabilities.",
      ),
      h("div", { class: "st-buttons" }, [1000, 100, 1].map(more), button("again", "Start over", () => go({ n: 0, seed: place.seed + 1 }), { disabled: place.n === 0 })),
      h("p", { class: "st-told" }, count < place.n ? `${count.toLocaleString("en")} of ${place.n.toLocaleString("en")} runs …` : count ? `${count.toLocaleString("en")} runs.` : "No runs yet."),
      h("div", { class: "st-charts" }, charts.map(({ figure }) => figure)),
      h(
        "table",
        { class: "st-table" },
        h("thead", {}, h("tr", {}, ["Total variation", "now", "expected by chance"].map((text) => h("th", { scope: "col" }, text)))),
        h(
          "tbody",
          {},
          [...charts, whole].map((each) =>
            h("tr", {}, h("th", { scope: "row" }, each.title), h("td", {}, count ? decimal(far(each)) : "–"), h("td", {}, count ? decimal(expectedDistance(each.target, count)) : "–")),
          ),
        ),
      ),
      p(
        "Total variation is half the sum of all differences. A correct verifier is hardly ever at 0: with this many runs it is about as far off as the last column says, and four times the runs halve that. " +
        "So a sampling test cannot detect a bias much smaller than this.",
      ),
      count ? h("p", { class: "pg-quiet" }, `Kept on average: ${decimal(accepted / count)} of ${instance.length} drafted words; the exact expectation is ${both(expectedAccepted(lawFor("").emitted))}.`) : null,
    ];
  }

  // --- 4: break it ------------------------------------------------------------------------------

  /** Return what is known of a bug, or of none: exact laws, and the tries of the usual test. */
  function lawFor(bug) {
    if (!known.has(bug)) {
      const own = stepsOf(bug);
      const emitted = lawOf(iteration(instance, token, own));
      const usualLaw = usuallyEmitted(instance, own);
      const off = distance(pooled(usualLaw, instance, V), instance.target([]));
      known.set(bug, { emitted, text: textLaw(emitted, instance), usualLaw, off, next: numbers(story.seed), tries: 0, noticed: 0, last: 0 });
    }
    return known.get(bug);
  }

  let isTrying = false;
  let showsTexts = false;

  /** Make tries of the usual test until there are enough of this bug, and of no bug. */
  function makeTries() {
    if (isTrying) return;
    isTrying = true;
    const work = () => {
      const bug = [place.bug, ""].find((each) => lawFor(each).tries < TRIES);
      isTrying = place.step === "break" && bug !== undefined;
      if (!isTrying) return;
      const own = lawFor(bug);
      own.last = usualTry(own.usualLaw, instance, usual, own.next);
      own.tries += 1;
      own.noticed += own.last <= usual.factor ? 1 : 0;
      const panel = element.querySelector(".st-usual");
      panel?.replaceWith(usualPanel());
      setTimeout(work, 10);
    };
    setTimeout(work, 30);
  }

  function breakScene() {
    const own = lawFor(place.bug);
    const bug = bugs.find(({ id }) => id === place.bug);
    const off = apart(own.text, right);
    const charts = PLACES.map((at) => exactly(`Word ${at + 1}`, `break ${at}`, words, rowAt(own.text, at, V), rowAt(right, at, V)));
    const texts = [...new Set([...right.keys(), ...own.text.keys()])].sort();
    const each = (law) => texts.map((text) => law.get(text) ?? ZERO);
    const sentences = texts.map((text) => said(text.split(",").map(Number)));
    makeTries();
    const choice = (id, title) =>
      h(
        "label",
        { class: "st-bug" },
        h("input", { type: "radio", name: "st-bug", id: `st-bug-${id || "none"}`, checked: place.bug === id, change: () => go({ bug: id }) }),
        title,
      );
    const met = ({ id, what, met: link, museum = true }) => [
      `${what} `,
      link ? ["Met in ", h("a", { href: link }, link.replace(/^https:..github.com.(.*).(issues|pull).(\d+)$/, "$1#$3")), ". "] : "Not met in an engine. ",
      museum ? [h("code", {}, id), " in the museum of mutants."] : "Not in the museum of mutants.",
    ];
    return [
      h("h2", { tabindex: "-1" }, "Break it"),
      p(
        "Each switch changes one step of token verification. Most of these bugs have occurred in real engines; Draftproof keeps them in its museum of mutants. " +
        "The bars are now exact, not sampled.",
      ),
      h(
        "div",
        { class: "st-broken" },
        h("fieldset", { class: "st-switches" }, h("legend", {}, "Bug"), choice("", "Nothing"), bugs.map(({ id, title }) => choice(id, title))),
        h(
          "div",
          { class: "st-found" },
          h("p", { class: "st-told" }, bug ? met(bug) : "The verifier is correct. Choose a bug."),
          h("div", { class: "st-charts" }, charts),
          legend([["seen", "as the target"], ["wrong", "not as the target"], ["target-line", "target"]]),
          h(
            "div",
            { class: "st-verdicts" },
            h(
              "div",
              { class: `st-verdict st-exact ${isZero(off) ? "st-fine" : "st-bad"}` },
              h("h3", {}, "The exact distribution"),
              h("p", { class: "st-says" }, isZero(off) ? "lossless" : "not lossless"),
              p(isZero(off) ? "Every text has exactly the target's probability." : `The whole text is off by ${both(off)} in total variation.`),
            ),
            usualPanel(),
          ),
          h("details", { open: showsTexts, toggle: (event) => (showsTexts = event.target.open) }, h("summary", {}, `All ${texts.length} texts`), exactly("Whole text", "break text", sentences, each(own.text), each(right))),
        ),
      ),
    ];
  }

  /** Return exact bars beside the target's, red where they differ. */
  function exactly(title, key, names, seen, target) {
    const most = Math.max(0.5, ...seen.map(float), ...target.map(float));
    const rows = names.map((word, i) => {
      const isWrong = !isEqual(seen[i], target[i]);
      return {
        word,
        kind: isWrong ? "wrong" : "",
        bars: [{ name: isWrong ? "wrong" : "seen", told: decimal(float(seen[i])), mark: float(target[i]), parts: [{ kind: isWrong ? "wrong" : "seen", value: float(seen[i]) }] }],
        note: isWrong ? `${isBelow(target[i], seen[i]) ? "too often" : "too rare"}: ${shortly(minus(seen[i], target[i]))}` : "",
      };
    });
    return bars(key, title, rows, { most });
  }

  /** Return a signed difference, as a decimal where the fraction is long. */
  function shortly(value) {
    const exact = signed(value);
    return exact.length < 9 ? exact : `${exact[0]}${decimal(Math.abs(float(value)))}`;
  }

  function usualPanel() {
    const { off, tries, noticed, last } = lawFor(place.bug);
    const fine = lawFor("");
    const isNoticed = tries > 0 && noticed > tries / 2;
    const many = usual.many.toLocaleString("en");
    return h(
      "div",
      { class: `st-verdict st-usual ${tries === 0 ? "" : isNoticed ? "st-bad" : "st-fine"}`, "data-tries": tries },
      h("h3", {}, "The usual test of pooled counts"),
      h("p", { class: "st-says" }, tries === 0 ? "…" : isNoticed ? "notices" : "“fine”"),
      p(`It failed in ${noticed} of ${tries} tries${place.bug ? `. Without a bug it fails in ${fine.noticed} of ${fine.tries}, by chance` : ", by chance"}.`),
      h(
        "p",
        { class: "pg-quiet" },
        `A try runs ${usual.few} iterations, then ${many}, on fresh drafts, with the same rows at every position. It counts the words at the drafted positions, without the bonus. It passes if its ` +
        `distance to the target shrinks more than ${usual.factor} times as much as its distance to ${usual.others} other rows${tries ? ` (${last.toFixed(1)} times in the last try)` : ""}. ` +
        (isZero(off)
          ? place.bug
            ? "What it counts has exactly the target's distribution: more samples would not help."
            : ""
          : `What it counts is off by ${both(off)}.`),
      ),
    );
  }

  // --- 5: a whole block -------------------------------------------------------------------------

  function blockScene() {
    const small = instanceOf(story.block);
    const kept = (each, verify) => expectedAccepted(lawOf(iteration(each, verify)));
    const rows = [["the pictures' two words", small], ["the story's words", instance]];
    const masses = (verify) => {
      const law = [...lawOf(iteration(small, verify))];
      const accepted = (count) => total(law.filter(([outcome]) => emittedBy(outcome).length === count + 1).map(([, weight]) => weight));
      return ["none", "one", "both"].map((text, count) => `${text} accepted: ${written(accepted(count))}`).join(", ");
    };
    const picture = (name, title, verify) =>
      h(
        "figure",
        { class: "st-plan" },
        h("figcaption", {}, title),
        ["light", "dark"].map((shade) => h("img", { src: `../explanation/algorithms/${name}-plan-${shade}.svg#only-${shade}`, alt: `Where the mass of the drafted pairs goes under ${title.toLowerCase()}. ${masses(verify)}` })),
      );
    return [
      h("h2", { tabindex: "-1" }, "A whole block at once"),
      p(
        "Token verification stops early: once a word is rejected, everything behind it is lost. ", strong("Block verification"),
        " tests all beginnings of the draft and keeps the longest that passes. It tosses no more coins, is lossless as well, and keeps at least as much.",
      ),
      p("The drafted pairs of words are on the left of each picture, with the draft's probabilities as heights; the written pairs are on the right, with the target's. A band that changes its pair is a correction."),
      h("div", { class: "st-plans" }, picture("token", "Token verification", token), picture("block", "Block verification", block)),
      h(
        "table",
        { class: "st-table" },
        h("thead", {}, h("tr", {}, ["Drafted words kept, on average", "token", "block"].map((text) => h("th", { scope: "col" }, text)))),
        h("tbody", {}, rows.map(([title, each]) => h("tr", {}, h("th", { scope: "row" }, title), h("td", {}, both(kept(each, token))), h("td", {}, both(kept(each, block)))))),
      ),
      p("See its page for the algorithm and its proofs: ", h("a", { href: "../explanation/algorithms/block/" }, "block verification"), ". No verifier of one path that leaves later targets unchanged keeps more."),
    ];
  }

  const SCENES = { models: modelsScene, coin: coinScene, runs: runsScene, break: breakScene, block: blockScene };

  window.addEventListener("hashchange", read);
  read();
}
