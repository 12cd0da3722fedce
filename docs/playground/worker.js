// Python, and the reference in it, beside the page: it answers messages and never blocks.
//
// In: {kind: "compute", id, run, isNew, text, willing, milliseconds}, {kind: "stop"}, {kind: "law", id,
// text, algorithm, drafts}. Out: {kind: "stage", part, text}, {kind: "ready", seconds}, {kind: "news",
// id, news}, {kind: "paused", run}, {kind: "law", id, told}, {kind: "failed", message}.
import { loadPyodide } from "./vendor/pyodide/pyodide.mjs";

const FIRST_SLICE = 250;
const SLICE = 60;

const here = new URL(".", import.meta.url);
let advance = null;
let wanted = null;

const tell = (message) => self.postMessage(message);

async function loaded(name) {
  const response = await fetch(new URL(name, here));
  if (!response.ok) throw new Error(`${name}: ${response.status} ${response.statusText}`);
  return response.arrayBuffer();
}

async function start() {
  const since = performance.now();
  const stage = (part, text) => tell({ kind: "stage", part, text });
  stage(0.05, "Loading Python");
  const names = JSON.parse(new TextDecoder().decode(await loaded("built.json"))).packages;
  const archives = Promise.all([...names, "draftproof.zip"].map(loaded));
  const indexURL = new URL("vendor/pyodide/", here).href;
  const pyodide = await loadPyodide({ indexURL });
  stage(0.5, "Loading sympy and the reference");
  for (const archive of await archives) {
    pyodide.unpackArchive(archive, "zip", { extractDir: "/playground" });
  }
  stage(0.65, "Importing sympy");
  pyodide.runPython("import sys; sys.path.insert(0, '/playground'); import sympy");
  stage(0.9, "Importing the reference");
  const playground = pyodide.pyimport("playground");
  tell({ kind: "ready", seconds: (performance.now() - since) / 1000 });
  return playground;
}

const playground = start();
playground.catch((error) => tell({ kind: "failed", message: `Python did not start. ${error.message}` }));

// The only way for other messages to be heard in between.
const others = () => new Promise((go) => setTimeout(go));

async function compute({ id, run, isNew, text, willing, milliseconds }) {
  wanted = run;
  const python = await playground;
  if (run !== wanted) return;
  // Who goes on with what another worker began begins anew.
  if (isNew || advance === null) {
    advance?.destroy();
    advance = python.computation(text);
  }
  const since = performance.now();
  for (let slice = FIRST_SLICE; ; slice = SLICE) {
    const news = JSON.parse(advance(slice, willing));
    tell({ kind: "news", id, news });
    if (news.error || news.finished) return;
    await others();
    // Who has to be asked whether to go on should hear for how long.
    const most = news.unknown ? 3 * milliseconds : milliseconds;
    if (news.idle || run !== wanted || performance.now() - since > most) {
      tell({ kind: "paused", run });
      return;
    }
  }
}

self.onmessage = async ({ data }) => {
  try {
    if (data.kind === "compute") await compute(data);
    else if (data.kind === "stop") wanted = null;
    else {
      const python = await playground;
      const told = JSON.parse(python.law_on(data.text, data.algorithm, data.drafts));
      tell({ kind: "law", id: data.id, told });
    }
  } catch (error) {
    // A defect of ours: what is wrong with an instance comes as news.
    advance = null;
    tell({ kind: "failed", message: error.message });
  }
};
