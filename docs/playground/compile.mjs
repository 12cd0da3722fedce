// Compile the modules of a zip for Pyodide's Python: node compile.mjs IN.zip OUT.zip
//
// A browser that compiles sympy anew takes most of a start-up for it. The sources are left out.
import { readFile, writeFile } from "node:fs/promises";
import { loadPyodide } from "pyodide";

const [, , source, result] = process.argv;
const pyodide = await loadPyodide();
pyodide.FS.writeFile("/source.zip", new Uint8Array(await readFile(source)));
pyodide.runPython(`
import importlib.util, marshal, warnings
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

warnings.simplefilter("ignore")

def compiled(name, source):
    code = marshal.dumps(compile(source, name, "exec", dont_inherit=True))
    # Bytecode that is checked against no source: PEP 552.
    head = importlib.util.MAGIC_NUMBER + (1).to_bytes(4, "little")
    return head + importlib.util.source_hash(source) + code

with ZipFile("/source.zip") as source, ZipFile("/result.zip", "w", ZIP_DEFLATED) as result:
    for name in source.namelist():
        content = source.read(name)
        if name.endswith(".py"):
            name, content = name + "c", compiled(name, content)
        result.writestr(ZipInfo(name, (1980, 1, 1, 0, 0, 0)), content, ZIP_DEFLATED)
`);
await writeFile(result, pyodide.FS.readFile("/result.zip"));
