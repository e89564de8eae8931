// What completes the word at the cursor: names of the catalogue, then key words.
import { KEYWORDS } from "./sql_dialect.js";
import { statementAt, tablesOf } from "./sql_text.js";

const TYPED = /[\w.`\u0080-\uffff]*$/;
const MOST_KNOWN = 200;
const known = new Map();

// A completion source of CodeMirror that asks the catalogue at `address`.
export function namesFrom(address) {
  return async ({ state, pos, explicit }) => {
    const line = state.doc.lineAt(pos);
    const typed = TYPED.exec(line.text.slice(0, pos - line.from))[0];
    if ((!typed && !explicit) || /^\d/.test(typed) || isInString(state, pos)) return null;
    const [first, ...rest] = typed.split(".");
    const tables = tablesOf(statementAt(state.doc.toString(), pos).sql);
    const meant = rest.length === 1 && tables.aliases.get(first.toLowerCase());
    const found = meant
      ? await ask(address, [["table", meant], ["typed", rest[0]]])
      : await ask(address, [["typed", typed], ...tables.names.map((name) => ["in", name])]);
    const options = found.map(({ text, detail, kind }) => ({
      label: text,
      detail: detail || kind,
      type: kind,
    }));
    if (!rest.length) options.push(...keywords(typed, options.length));
    if (!options.length || (options.length === 1 && options[0].label === typed)) return null;
    return { from: pos - (meant ? rest[0] : typed).length, options, filter: false };
  };
}

async function ask(address, parameters) {
  const url = `${address}?${new URLSearchParams(parameters)}`;
  if (!known.has(url)) {
    const response = await fetch(url, { headers: { Accept: "application/json" } });
    if (!response.ok) return [];
    known.set(url, (await response.json()).names);
    if (known.size > MOST_KNOWN) known.delete(known.keys().next().value);
  }
  return known.get(url);
}

function isInString(state, pos) {
  return window.CodeMirror.syntaxTree(state).resolveInner(pos, -1).name === "String";
}

function keywords(typed, room) {
  if (typed.length < 2) return [];
  return KEYWORDS.filter((word) => word.startsWith(typed.toLowerCase()))
    .slice(0, Math.max(4, 12 - room))
    .map((word) => ({ label: word.toUpperCase(), type: "keyword" }));
}
