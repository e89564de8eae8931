// The SQL editor: CodeMirror 6 with Spark's words, our keys, and the colours of sql.css.
import { statementAt } from "./sql_text.js";
import { namesFrom, sparkDialect } from "./sql_words.js";
import { say } from "./words.js";

const TYPING_PAUSE = 120; // milliseconds before names are asked for

// Stands in front of the form's own field, which stays: it is what is sent, and what a
// script may fill. `on` has run, runAll, save, format, leave and changed.
export class SqlEditor {
  constructor(area, on) {
    const { EditorState, EditorView, StateEffect } = window.CodeMirror;
    this.area = area;
    this.setWrongLine = StateEffect.define();
    const extensions = [
      ...writing(),
      ...keys(on),
      ...looks(area),
      this.#wrongLines(),
      EditorView.updateListener.of((update) => {
        if (!update.docChanged) return;
        area.value = this.value;
        on.changed();
      }),
    ];
    this.stateOf = (doc) => EditorState.create({ doc, extensions });
    this.view = new EditorView({ state: this.stateOf(area.value) });
    area.after(this.view.dom);
    area.classList.add("is-behind");
    area.tabIndex = -1;
    area.setAttribute("aria-hidden", "true");
    document.querySelector(`label[for=${area.id}]`).removeAttribute("for");
    area.addEventListener("input", () => {
      if (area.value !== this.value) this.#replaceAll(area.value, 0);
    });
  }

  get value() {
    return this.view.state.doc.toString();
  }

  focus() {
    this.view.focus();
  }

  // Another text, with a history of its own.
  open(text) {
    this.view.setState(this.stateOf(text));
    this.area.value = this.value;
  }

  // This text instead, which can be undone; the cursor goes to its end.
  write(text) {
    this.#replaceAll(text, text.length);
    this.focus();
  }

  insert(text) {
    this.view.dispatch(this.view.state.replaceSelection(text), { scrollIntoView: true });
    this.focus();
  }

  // What is selected, or the statement at the cursor, and the line where it begins.
  chosen() {
    const { state } = this.view;
    const parts = state.selection.ranges.filter((range) => !range.empty);
    if (parts.length) {
      const sql = parts.map(({ from, to }) => state.sliceDoc(from, to)).join("\n");
      return { sql, line: this.lineAt(parts[0].from) };
    }
    const { sql, start } = statementAt(this.value, state.selection.main.head);
    return { sql, line: this.lineAt(start) };
  }

  // Lines count from 0.
  lineAt(place) {
    return this.view.state.doc.lineAt(place).number - 1;
  }

  markLine(line) {
    const { doc } = this.view.state;
    if (line >= doc.lines) return;
    this.view.dispatch({ effects: this.setWrongLine.of(doc.line(line + 1).from) });
  }

  clearMark() {
    this.view.dispatch({ effects: this.setWrongLine.of(null) });
  }

  #replaceAll(text, cursor) {
    const { state } = this.view;
    const changes = { from: 0, to: state.doc.length, insert: state.toText(text) };
    const anchor = Math.min(cursor, changes.insert.length);
    this.view.dispatch({ changes, selection: { anchor }, scrollIntoView: true });
  }

  #wrongLines() {
    const { Decoration, EditorView, StateField } = window.CodeMirror;
    const wrong = Decoration.line({ class: "is-wrong-line" });
    return StateField.define({
      create: () => Decoration.none,
      update: (marks, { docChanged, effects }) => {
        const effect = effects.find((one) => one.is(this.setWrongLine));
        if (effect && effect.value !== null) return Decoration.set(wrong.range(effect.value));
        return effect || docChanged ? Decoration.none : marks;
      },
      provide: (field) => EditorView.decorations.from(field),
    });
  }
}

function writing() {
  const cm = window.CodeMirror;
  const { dataset } = document.getElementById("sql-form");
  return [
    sparkDialect(),
    cm.indentUnit.of("  "),
    cm.EditorState.allowMultipleSelections.of(true),
    cm.rectangularSelection(),
    cm.history(),
    cm.bracketMatching(),
    cm.closeBrackets(),
    cm.EditorView.domEventHandlers({ beforeinput: typeOver }),
    cm.autocompletion({
      override: [namesFrom(dataset.names)],
      activateOnTypingDelay: TYPING_PAUSE,
      interactionDelay: 0,
      icons: false,
      optionClass: ({ type }) => `hint-${type}`,
    }),
  ];
}

// Replaces what is selected by what is typed. Left to itself, Chromium deletes lines and
// keeps the colour of their first word as an inline style, which the page's policy refuses.
function typeOver(event, view) {
  const { from, to, empty } = view.state.selection.main;
  const text = event.data;
  if (empty || !text || event.inputType !== "insertText") return false;
  const typed = () =>
    view.state.update(view.state.replaceSelection(text), {
      userEvent: "input.type",
      scrollIntoView: true,
    });
  const handlers = view.state.facet(window.CodeMirror.EditorView.inputHandler);
  const isHandled = handlers.some((handle) => handle(view, from, to, text, typed));
  if (!isHandled) view.dispatch(typed());
  return true;
}

function keys(on) {
  const cm = window.CodeMirror;
  const always = (action) => () => {
    action();
    return true;
  };
  const own = [
    { key: "Ctrl-Enter", run: always(on.run), shift: always(on.runAll) },
    { key: "Cmd-Enter", run: always(on.run), shift: always(on.runAll) },
    { key: "Mod-s", run: always(on.save), preventDefault: true },
    { key: "Mod-Shift-f", run: always(on.format), preventDefault: true },
    { key: "Escape", run: always(on.leave) },
    { key: "Tab", run: cm.acceptCompletion },
    { key: "Tab", run: indent, shift: cm.indentLess },
    { key: "Ctrl-/", run: cm.toggleComment },
    { key: "Mod-d", run: cm.deleteLine },
  ];
  const usual = [...cm.closeBracketsKeymap, ...cm.defaultKeymap, ...cm.historyKeymap];
  return [cm.keymap.of([...own, ...usual])];
}

function indent(view) {
  const { countColumn, indentMore } = window.CodeMirror;
  const { state } = view;
  const { empty, head } = state.selection.main;
  if (!empty || state.selection.ranges.length > 1) return indentMore(view);
  const line = state.doc.lineAt(head);
  const column = countColumn(line.text, state.tabSize, head - line.from);
  const spaces = " ".repeat(state.tabSize - (column % state.tabSize));
  view.dispatch(state.replaceSelection(spaces), {
    userEvent: "input",
    scrollIntoView: true,
  });
  return true;
}

function looks(area) {
  const { tags, ...cm } = window.CodeMirror;
  const colours = cm.tagHighlighter([
    { tag: tags.keyword, class: "tok-keyword" },
    { tag: [tags.string, tags.special(tags.string)], class: "tok-string" },
    { tag: [tags.number, tags.bool, tags.null], class: "tok-value" },
    { tag: [tags.standard(tags.name), tags.typeName], class: "tok-builtin" },
    { tag: tags.comment, class: "tok-comment" },
  ]);
  return [
    cm.syntaxHighlighting(colours),
    cm.lineNumbers(),
    cm.drawSelection(),
    cm.highlightSpecialChars(),
    cm.placeholder(area.placeholder),
    // CodeMirror makes a style element; the page's policy knows it by this.
    cm.EditorView.cspNonce.of(area.nonce),
    cm.EditorView.contentAttributes.of({ "aria-label": say("editor") }),
    cm.EditorState.phrases.of({
      Completions: say("completions"),
      "Control character": say("control_character"),
      "Selection deleted": say("selection_deleted"),
    }),
  ];
}
