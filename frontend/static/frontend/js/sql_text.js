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
    const table = parts.slice(-2).join(".");
    if (!names.includes(table)) names.push(table);
    aliases.set(parts[parts.length - 1].toLowerCase(), table);
    if (alias && !NO_ALIAS.test(alias)) {
      aliases.set(alias.replaceAll("`", "").toLowerCase(), table);
    }
  }
  return { names: names.slice(0, 6), aliases };
}
