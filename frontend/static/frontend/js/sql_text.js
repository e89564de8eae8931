// Where statements of a text begin and end, and which tables one names. Pure text.

// Strings, quoted names and comments are stepped over whole; `;` parts statements.
const PIECE = /'(?:[^'\\]|\\.|'')*'?|"(?:[^"\\]|\\.)*"?|`[^`]*`?|--[^\n]*|\/\*[\s\S]*?(?:\*\/|$)|;/g;

export function statementsOf(text) {
  const found = [];
  let start = 0;
  const close = (end) => {
    const sql = text.slice(start, end);
    const lead = sql.length - sql.trimStart().length;
    if (sql.trim()) found.push({ sql: sql.trim(), start: start + lead, end });
    start = end + 1;
  };
  for (const piece of text.matchAll(PIECE)) if (piece[0] === ";") close(piece.index);
  close(text.length);
  return found;
}

// The statement that the place lies in; behind the last one it is the last one.
export function statementAt(text, place) {
  const all = statementsOf(text);
  return (
    all.find((one) => place <= one.end) || all[all.length - 1] || { sql: "", start: 0 }
  );
}

const NAME = "(?:`[^`]+`|[\\w\\u0080-\\uffff]+)";
const TABLE = new RegExp(
  `\\b(?:from|join|,)\\s+(${NAME}(?:\\.${NAME}){0,2})(?:\\s+(?:as\\s+)?(${NAME}))?`,
  "gi",
);
const NO_ALIAS = /^(on|where|join|left|right|inner|full|cross|group|order|limit|union|having|using|lateral|natural|anti|semi|as|tablesample|except|intersect|window|sort|distribute|cluster)$/i;

// { names: ["db.table"], aliases: Map(alias or table → "db.table") }
export function tablesOf(sql) {
  const names = [];
  const aliases = new Map();
  for (const [, name, alias] of sql.matchAll(TABLE)) {
    const parts = name.replaceAll("`", "").split(".");
    if (parts.length < 2) continue;
    const table = parts.slice(-3).join(".");
    if (!names.includes(table)) names.push(table);
    aliases.set(parts[parts.length - 1].toLowerCase(), table);
    if (alias && !NO_ALIAS.test(alias)) {
      aliases.set(alias.replaceAll("`", "").toLowerCase(), table);
    }
  }
  return { names: names.slice(0, 6), aliases };
}

// ---------------------------------------------------------------- parameters
const PARAMETER = /\{\{\s*([A-Za-z_]\w*)\s*\}\}/g;

export function parametersOf(text) {
  return [...new Set([...text.matchAll(PARAMETER)].map(([, name]) => name))];
}

// Numbers as they are, all else as a string; within quotes only what is special changes.
export function withParameters(text, values) {
  return text.replace(PARAMETER, (whole, name, place) => {
    const value = values[name] ?? "";
    const safe = value.replace(/[\\']/g, "\\$&");
    const end = place + whole.length;
    if (text[place - 1] === "'" && text[end] === "'") return safe;
    return /^-?\d+(\.\d+)?$/.test(value) ? value : `'${safe}'`;
  });
}

// ---------------------------------------------------------------- form
const CLAUSE =
  /\b(select|from|where|group\s+by|order\s+by|having|limit|union(?:\s+all)?|(?:(?:left|right|full|inner|cross)\s+(?:outer\s+)?)?join|on|and|or|as|in|is|not|null|case|when|then|else|end|between|like|distinct|asc|desc|with|over|partition\s+by|interval)\b/gi;
const LINES =
  /^(select|from|where|group by|order by|having|limit|union(?: all)?|(?:(?:left|right|full|inner|cross) (?:outer )?)?join)$/i;

// Keywords in capitals, each clause on a line of its own; strings, names and comments stay.
export function formatted(text) {
  let depth = 0;
  let done = "";
  const plain = (part) => {
    let last = 0;
    const flat = part.replace(/\s+/g, " ");
    const add = (piece) => {
      for (const sign of piece) depth += (sign === "(") - (sign === ")");
      done += done.endsWith("\n") || /\n *$/.test(done) ? piece.trimStart() : piece;
    };
    for (const found of flat.matchAll(CLAUSE)) {
      add(flat.slice(last, found.index));
      const word = found[0].toUpperCase();
      const isLine = LINES.test(word) && done.trim();
      if (isLine) done = `${done.trimEnd()}\n${"  ".repeat(Math.max(depth, 0))}`;
      done += word;
      last = found.index + found[0].length;
    }
    add(flat.slice(last));
  };
  let from = 0;
  for (const piece of text.matchAll(PIECE)) {
    plain(text.slice(from, piece.index));
    from = piece.index + piece[0].length;
    if (piece[0] === ";") {
      done = `${done.trimEnd()};\n\n`;
      depth = 0;
    } else if (piece[0].startsWith("--")) {
      done += `${piece[0]}\n`;
    } else {
      done += piece[0];
    }
  }
  plain(text.slice(from));
  return `${done.trim()}\n`;
}
