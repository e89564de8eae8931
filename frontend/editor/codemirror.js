// What the SQL page takes of CodeMirror 6; everything else stays out of the bundle.
export {
  acceptCompletion,
  autocompletion,
  closeBrackets,
  closeBracketsKeymap,
  completionKeymap,
  startCompletion,
} from "@codemirror/autocomplete";
export {
  defaultKeymap,
  deleteLine,
  history,
  historyKeymap,
  indentLess,
  indentMore,
  toggleComment,
} from "@codemirror/commands";
export { SQLDialect } from "@codemirror/lang-sql";
export {
  bracketMatching,
  delimitedIndent,
  indentNodeProp,
  indentUnit,
  syntaxHighlighting,
  syntaxTree,
} from "@codemirror/language";
export {
  countColumn,
  EditorState,
  Prec,
  StateEffect,
  StateField,
} from "@codemirror/state";
export {
  Decoration,
  drawSelection,
  EditorView,
  highlightSpecialChars,
  keymap,
  lineNumbers,
  placeholder,
  rectangularSelection,
} from "@codemirror/view";
export { tagHighlighter, tags } from "@lezer/highlight";
