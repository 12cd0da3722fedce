// The playground: controls, a worker that computes with the reference itself, and what it finds.
import { h } from "./element.js";
import {
  MOST,
  Malformed,
  SCHEMES,
  contexts,
  filled,
  fromDocument,
  fromFragment,
  moved,
  plain,
  random,
  roughly,
  toDocument,
  toFragment,
} from "./instance.js";
import { certificateOf, heard, lawOf, nothing, ranked, show } from "./results.js";

// What starts by itself may take this long; more is asked for.
const UNASKED = 2_000;
const WHOLE = 24 * 3_600_000;
// A step that has not ended by then is not waited for.
const PATIENCE = 700;
const HERE = new URL(".", import.meta.url);
const MODELS = { target: "p", draft: "q" };

class Playground extends HTMLElement {
  #part = (name) => this.querySelector(`[data-part="${name}"]`);
  #known = new Map();
  #worker = null;
  #isReady = false;
  #isBusy = false;
  #isDue = false;
  #id = 0;
  #run = 0;
  #timers = {};
  #chosen = null;
  #drafts = null;
  #told = null;
  #context = "";
  #steps = 12;
  #base = {};
  #loadBytes = 0;
  #examples = [];

  async connectedCallback() {
    const response = await fetch(new URL("built.json", HERE)).catch(() => null);
    if (!response?.ok) {
      const reason = response ? `the server answers ${response.status}` : "there is no answer";
      this.#part("complaint").textContent = `The examples cannot be loaded from built.json: ${reason}. Load the page again.`;
      return;
    }
    const { bytes, examples } = await response.json();
    this.#loadBytes = bytes;
    this.#examples = examples.map((each) => ({ ...each, instance: filled(fromDocument(each.instance)) }));
    for (const { instance, answer } of this.#examples) {
      this.#known.set(this.#textOf(instance), { ...heard(nothing(), answer), origin: "site" });
    }
    this.#makeControls();
    this.#part("form").hidden = false;
    window.addEventListener("hashchange", this.#read);
    this.#read();
  }

  disconnectedCallback() {
    window.removeEventListener("hashchange", this.#read);
    this.#worker?.terminate();
  }

  // --- the instance -----------------------------------------------------------------------------

  #textOf = (instance) => JSON.stringify(toDocument(instance));

  #read = () => {
    // The story has links of its own.
    const fragment = location.hash.startsWith("#step=") ? "" : location.hash.slice(1);
    const complaint = this.#part("complaint");
    complaint.textContent = "";
    let instance = this.#examples[0].instance;
    // Headings of the page have fragments, too.
    if (fragment && !document.getElementById(decodeURIComponent(fragment.replace(/%(?![0-9a-f]{2})/gi, "%25")))) {
      if (fragment === this.#fragment) return;
      try {
        instance = fromFragment(fragment);
      } catch (error) {
        if (!(error instanceof Malformed)) throw error;
        complaint.textContent = `The link cannot be read: ${error.message}. Shown is the first example.`;
      }
    } else if (this.instance) return;
    this.#take(instance, { isRead: true });
  };

  #take(instance, { isRead = false } = {}) {
    this.#context = "";
    this.#base = {};
    this.instance = instance;
    this.#showControls();
    this.#changed({ isRead });
  }

  get #fragment() {
    return this.instance && toFragment(this.instance);
  }

  #changed({ isRead = false } = {}) {
    this.#drafts = this.#told = null;
    if (!isRead) {
      this.#part("complaint").textContent = "";
      clearTimeout(this.#timers.link);
      this.#timers.link = setTimeout(() => history.replaceState(null, "", `#${this.#fragment}`), 200);
    }
    const text = this.#textOf(this.instance);
    for (const [i, button] of [...this.#part("examples").children].entries()) {
      button.setAttribute("aria-pressed", `${this.#textOf(this.#examples[i].instance) === text}`);
    }
    const example = this.#examples.find(({ instance }) => this.#textOf(instance) === text);
    this.#part("about").textContent = example?.about ?? "Your instance.";
    this.#stop();
    this.#complain(null);
    const known = this.#known.get(text);
    this.#begin(known ?? nothing());
    if (known) this.#render();
    else if (this.#worker) {
      this.#isDue = true;
      this.#timers.compute = setTimeout(() => this.#compute({ willing: false }), 120);
    }
    this.classList.toggle("pg-stale", !known);
    this.dataset.instance = this.#fragment;
    this.#tellState();
  }

  // --- the controls -----------------------------------------------------------------------------

  #makeControls() {
    const options = (entries) => entries.map(([value, text]) => h("option", { value }, text));
    const upTo = (most) => Array.from({ length: most }, (_, i) => [`${i + 1}`, `${i + 1}`]);
    for (const [name, entries] of Object.entries({
      V: upTo(MOST.V),
      L: upTo(MOST.L),
      K: upTo(MOST.K),
      scheme: Object.entries(SCHEMES),
      rows: [["one", "context-free"], ["each", "by context"]],
      steps: [6, 12, 24, 60].map((steps) => [`${steps}`, `1/${steps}`]),
    })) {
      this.#part(name).replaceChildren(...options(entries));
      this.#part(name).addEventListener("change", (event) => this.#sized(name, event.target.value));
    }
    this.#part("steps").value = `${this.#steps}`;
    this.#part("context").addEventListener("change", (event) => {
      this.#context = event.target.value;
      this.#showRows();
    });
    this.#part("random").addEventListener("click", () => {
      for (const model of Object.keys(MODELS)) {
        for (const context of Object.keys(this.instance[model])) {
          this.instance[model][context] = random(this.instance.V, this.#steps);
        }
      }
      this.#showRows();
      this.#changed();
    });
    this.#part("examples").replaceChildren(
      ...this.#examples.map(({ title, instance }) =>
        h("button", { type: "button", click: () => this.#take(structuredClone(instance)) }, title),
      ),
    );
    this.#part("compute").addEventListener("click", () => this.#pressed());
    this.#part("share").addEventListener("click", () => this.#share());
    this.#part("form").addEventListener("submit", (event) => event.preventDefault());
  }

  #sized(name, value) {
    const { instance } = this;
    if (name === "steps") {
      this.#steps = Number(value);
      this.#showRows();
      return;
    }
    if (name === "V") this.instance = plain(Number(value), instance);
    else if (name === "scheme") this.instance = { ...instance, scheme: value };
    else if (name === "rows") this.instance = filled({ ...instance, each: value === "each" });
    else this.instance = filled({ ...instance, [name]: Number(value) });
    if (!(this.#context in this.instance.target)) this.#context = "";
    this.#showControls();
    this.#changed();
  }

  #showControls() {
    const { V, L, K, scheme, each } = this.instance;
    const values = { V, L, K, scheme, rows: each ? "each" : "one" };
    for (const [name, value] of Object.entries(values)) this.#part(name).value = `${value}`;
    this.#part("contexts").hidden = !each;
    this.#part("context").replaceChildren(
      ...contexts(V, each ? L : 0).map((context) =>
        h("option", { value: context }, context === "" ? "at the start" : `after ${context.replaceAll(",", " ")}`),
      ),
    );
    this.#part("context").value = this.#context;
    this.#showRows();
  }

  #showRows() {
    for (const [model, letter] of Object.entries(MODELS)) {
      const place = this.#part(model);
      const row = this.instance[model][this.#context];
      const isNone = row === undefined;
      place.querySelector(".pg-none").hidden = !isNone;
      place.querySelector(".pg-row").hidden = isNone;
      if (isNone) continue;
      const sliders = Array.from({ length: this.instance.V }, (_, token) => this.#slider(model, letter, token));
      place.querySelector(".pg-sliders").replaceChildren(...sliders);
      const text = place.querySelector("input[type=text]");
      text.value = row.join(", ");
      text.oninput = () => {
        this.#base = {};
        this.#setRow(model, text.value.split(/[\s,;]+/).filter(Boolean), text);
      };
      this.#showRow(model, text);
    }
  }

  #slider(model, letter, token) {
    const id = `pg-${letter}-${token}`;
    const slide = (event) => {
      const key = `${model} ${this.#context} ${token}`;
      if (this.#base.key !== key) this.#base = { key, row: this.instance[model][this.#context] };
      this.#setRow(model, moved(this.#padded(this.#base.row), token, Number(event.target.value), this.#steps));
    };
    return h(
      "div",
      { class: "pg-slider" },
      h("label", { for: id }, h("span", { class: "pg-letter" }, `${letter}(${token})`)),
      h("input", { type: "range", id, min: "0", max: `${this.#steps}`, step: "1", input: slide }),
      h("output", { for: id }),
    );
  }

  #padded = (row) => Array.from({ length: this.instance.V }, (_, token) => row[token] ?? "0");

  #setRow(model, row, writtenIn) {
    this.instance = { ...this.instance, [model]: { ...this.instance[model], [this.#context]: row } };
    this.#showRow(model, writtenIn);
    this.#changed();
  }

  #showRow(model, writtenIn) {
    const place = this.#part(model);
    const row = this.instance[model][this.#context];
    const text = place.querySelector("input[type=text]");
    if (text !== writtenIn) text.value = row.join(", ");
    for (const [token, slider] of [...place.querySelectorAll(".pg-slider")].entries()) {
      const [input, output] = [slider.querySelector("input"), slider.querySelector("output")];
      const weight = row[token] ?? "?";
      input.value = `${Math.round(roughly(weight) * this.#steps)}`;
      input.setAttribute("aria-valuetext", weight);
      input.style.setProperty("--part", `${100 * Math.min(1, Math.max(0, roughly(weight)))}%`);
      output.textContent = weight;
    }
  }

  #complain(error) {
    for (const name of ["target", "draft", "other"]) this.#part(`${name}-error`).textContent = "";
    for (const input of this.querySelectorAll("input[type=text]")) input.removeAttribute("aria-invalid");
    if (!error) return;
    const model = error.model;
    this.#part(`${model ?? "other"}-error`).textContent = error.message;
    if (model) this.#part(model).querySelector("input[type=text]").setAttribute("aria-invalid", "true");
  }

  async #share() {
    const link = `${location.origin}${location.pathname}#${this.#fragment}`;
    history.replaceState(null, "", link);
    try {
      await navigator.clipboard.writeText(link);
      this.#part("shared").textContent = "Copied.";
    } catch {
      this.#part("shared").textContent = "The link is in the address bar.";
    }
    clearTimeout(this.#timers.shared);
    this.#timers.shared = setTimeout(() => (this.#part("shared").textContent = ""), 4_000);
  }

  // --- the worker -------------------------------------------------------------------------------

  #pressed() {
    if (this.#isBusy || this.#isDue) {
      this.#stop();
      this.#tellState();
      return;
    }
    // What came with the site, or is finished, is computed anew.
    const isFresh = this.state.origin === "site" || this.state.finished || this.state.error;
    if (isFresh) this.#begin(nothing());
    this.#compute({ willing: this.#worker !== null && !isFresh });
  }

  /** Have another state. Its number is that of the news that belong to it. */
  #begin(state) {
    this.state = state;
    this.#id += 1;
  }

  #compute({ willing }) {
    this.#worker ??= this.#started();
    this.#isDue = false;
    this.#isBusy = true;
    this.#run += 1;
    this.since = performance.now();
    this.#worker.postMessage({
      kind: "compute",
      id: this.#id,
      run: this.#run,
      isNew: this.state.isNew,
      text: this.#textOf(this.instance),
      willing,
      milliseconds: willing ? WHOLE : UNASKED,
    });
    this.#tellState();
  }

  #stop() {
    clearTimeout(this.#timers.compute);
    this.#isDue = false;
    if (!this.#isBusy) return;
    this.#isBusy = false;
    this.#run += 1;
    this.#worker.postMessage({ kind: "stop" });
    if (!this.#isReady) return;
    clearTimeout(this.#timers.patience);
    this.#timers.patience = setTimeout(() => this.#end(), PATIENCE);
  }

  /** End a worker that does not answer; the next one starts when there is something to compute. */
  #end() {
    const wasBusy = this.#isBusy;
    this.#worker?.terminate();
    this.#worker = null;
    this.#isReady = this.#isBusy = false;
    if (wasBusy) this.#compute({ willing: false });
    else this.#tellState();
  }

  #started() {
    const worker = new Worker(new URL("worker.js", HERE), { type: "module" });
    worker.onmessage = ({ data }) => this.#heard(data);
    worker.onerror = (event) => this.#heard({ kind: "failed", message: event.message ?? "The worker did not start." });
    return worker;
  }

  #heard(message) {
    if (message.kind === "paused" || message.id === this.#id) clearTimeout(this.#timers.patience);
    if (message.kind === "stage") {
      this.stage = message;
      this.#tellState();
    } else if (message.kind === "ready") {
      this.#isReady = true;
      this.startUp = message.seconds;
      this.since = performance.now();
      this.#tellState();
    } else if (message.kind === "failed") {
      this.#isBusy = false;
      this.#end();
      this.#say(message.message);
    } else if (message.kind === "news") {
      // What was found is never told again, so it counts even if nobody waits for it any more.
      if (message.id === this.#id) this.#hearNews(message.news);
    } else if (message.kind === "paused") {
      if (message.run === this.#run) {
        this.#isBusy = false;
        this.#tellState();
      }
    } else if (message.id === this.#told?.id) {
      this.#told.told = message.told;
      this.#render();
    }
  }

  #hearNews(news) {
    this.classList.remove("pg-stale");
    if (news.error) {
      this.#isBusy = false;
      this.#begin({ ...nothing(), error: news.error });
      this.#complain(news.error);
      this.classList.add("pg-stale");
      this.#tellState();
      return;
    }
    heard(this.state, news);
    this.state.took = (this.state.took ?? 0) + performance.now() - this.since;
    this.since = performance.now();
    if (news.finished) {
      this.#isBusy = false;
      this.state.origin = "browser";
      this.#known.set(this.#textOf(this.instance), this.state);
    }
    this.#render();
    this.#tellState();
  }

  // --- what is shown ----------------------------------------------------------------------------

  #render() {
    const { L, K } = this.instance;
    const table = this.#part("results");
    table.hidden = false;
    show(table, this.state, {
      length: L,
      chosen: this.#chosen,
      choose: (name) => {
        this.#chosen = name;
        // The rows of an instance that is no longer asked for have nothing behind them.
        if (this.state.isNew) return;
        this.#askLaw();
        this.#render();
      },
      detail: (result) =>
        result.kind === "optimum"
          ? certificateOf(result)
          : lawOf(result, this.state, {
              K,
              L,
              drafts: this.#drafts,
              told: this.#told?.told,
              choose: (drafts) => {
                this.#drafts = drafts;
                this.#askLaw();
                this.#render();
              },
            }),
    });
    this.#part("scale").textContent =
      `A full bar means all L = ${L} drafted token${L > 1 ? "s" : ""}; the mark is the optimum.`;
    const unfit = this.state.around?.unfit ?? [];
    this.#part("unfit").hidden = unfit.length === 0;
    this.#part("unfit").querySelector("summary").textContent =
      `${unfit.length} algorithm${unfit.length > 1 ? "s do" : " does"} not accept these drafts`;
    this.#part("unfit").querySelector("ul").replaceChildren(...unfit.map(([title, reason]) => h("li", {}, `${title}: ${reason}`)));
  }

  #askLaw() {
    this.#told = null;
    if (this.#drafts === null || !this.#chosen || this.state.found.get(this.#chosen)?.kind !== "algorithm") return;
    const asksFirst = this.#worker === null;
    this.#worker ??= this.#started();
    this.#told = { id: `law ${(this.asked = (this.asked ?? 0) + 1)}`, told: null };
    this.#worker.postMessage({
      kind: "law",
      id: this.#told.id,
      text: this.#textOf(this.instance),
      algorithm: this.#chosen,
      drafts: JSON.stringify(this.#drafts),
    });
    if (asksFirst) this.#tellState();
  }

  #say(text) {
    const status = this.#part("status");
    if (status.textContent !== text) status.textContent = text;
  }

  /** Say how far it is, and what the button does. */
  #tellState() {
    const { state } = this;
    const size = `${Math.round(this.#loadBytes / 1e6)} MB`;
    const isStarting = this.#worker !== null && !this.#isReady;
    const isBusy = this.#isBusy || this.#isDue;
    const progress = this.#part("progress");
    const { found, coming } = ranked(state);
    let text;
    let action = "Compute again";
    let left = "";
    progress.hidden = true;
    if (isStarting) {
      text = `${this.stage?.text ?? "Starting"} …`;
      action = isBusy ? "Stop" : "Compute";
      progress.hidden = false;
      progress.value = this.stage?.part ?? 0;
    } else if (isBusy) {
      text = "Computing …";
      action = "Stop";
      const parts = [...found.map(() => 1), ...coming.map((name) => state.running[name] ?? 0)];
      // What is soon there needs no progress bar.
      progress.hidden = !(state.took > 500);
      progress.value = parts.length ? parts.reduce((a, b) => a + b, 0) / parts.length : 0;
      const more = state.unknown + state.waiting.length > 0;
      if (!progress.hidden && state.seconds > 3) left = `${more ? "more than" : "about"} ${spoken(state.seconds)} to go`;
    } else if (state.error) {
      text = "The reference refuses this instance.";
      action = "Compute";
    } else if (state.finished && state.origin === "site") {
      text = "Computed when this site was built, by the program that your browser can run.";
      action = `Compute it here (${size})`;
      if (this.#isReady) action = "Compute it here";
    } else if (state.finished) {
      const took = Math.max(0.1, state.took / 1_000).toFixed(1);
      text = `Computed in your browser in ${took} s: ${found.length} algorithms, two optima, all exact.`;
    } else if (state.isNew) {
      text = this.#worker
        ? "Not computed yet."
        : `Not computed yet: that takes Python, ${size} from this site.`;
      action = this.#worker ? "Compute" : `Compute (${size})`;
    } else {
      const more = state.unknown + state.waiting.length > 0 ? "more than" : "about";
      const rest = state.seconds > 0 ? `the rest takes ${more} ${spoken(state.seconds)}` : "the rest takes longer";
      text = `${found.length} of ${found.length + coming.filter((n) => !n.startsWith("state")).length} algorithms are computed; ${rest}.`;
      action = "Go on";
    }
    this.#say(text);
    // Not announced: it changes all the time.
    this.#part("left").textContent = left;
    const button = this.#part("compute");
    if (button.textContent !== action) button.textContent = action;
    this.dataset.state = isStarting ? "starting" : isBusy ? "computing" : state.finished ? "finished" : "idle";
  }
}

function spoken(seconds) {
  if (seconds < 90) return `${Math.max(1, Math.round(seconds))} s`;
  return seconds < 5_400 ? `${Math.round(seconds / 60)} min` : `${Math.round(seconds / 3_600)} h`;
}

customElements.define("draft-playground", Playground);
