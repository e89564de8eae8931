// Bundles CodeMirror 6 for the SQL page: one script, its licences, and its hash, which
// tests/unit/frontend/test_vendored.py compares with the script that is committed.
import { createHash } from "node:crypto";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { build } from "esbuild";

const FOLDER = "../static/frontend/vendor/codemirror-6";
const FILE = "codemirror.js";

async function licences(inputs) {
  const folders = inputs.map((path) => /^node_modules\/(?:@[^/]+\/)?[^/]+/.exec(path)?.[0]);
  const byText = new Map();
  for (const folder of [...new Set(folders)].filter(Boolean).sort()) {
    const { name, version } = JSON.parse(await readFile(`${folder}/package.json`));
    const text = (await readFile(`${folder}/LICENSE`, "utf8")).trim();
    byText.set(text, [...(byText.get(text) ?? []), `${name} ${version}`]);
  }
  return [...byText].map(([text, names]) => `${names.join("\n")}\n\n${text}\n`);
}

const { metafile, outputFiles } = await build({
  entryPoints: ["codemirror.js"],
  bundle: true,
  minify: true,
  format: "iife",
  globalName: "CodeMirror",
  target: "es2020",
  charset: "ascii",
  legalComments: "none",
  metafile: true,
  write: false,
  outdir: FOLDER,
});
const [{ contents }] = outputFiles;
const hash = createHash("sha256").update(contents).digest("hex");
await mkdir(FOLDER, { recursive: true });
await writeFile(`${FOLDER}/${FILE}`, contents);
await writeFile(`${FOLDER}/SHA256SUMS`, `${hash}  ${FILE}\n`);
const parts = await licences(Object.keys(metafile.inputs));
await writeFile(`${FOLDER}/LICENSE`, parts.join(`\n${"-".repeat(72)}\n\n`));
