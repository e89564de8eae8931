// Fields for the parameters `{{name}}` of a statement. What is typed is kept while the
// page is open.
import { say } from "./words.js";
import { parametersOf, withParameters } from "./sql_text.js";

export class Parameters {
  constructor(box) {
    this.box = box;
    this.values = {};
    box?.addEventListener("input", ({ target }) => {
      this.values[target.dataset.parameter] = target.value;
    });
  }

  // Has a field for each parameter of the text.
  follow(text) {
    if (!this.box) return;
    const names = parametersOf(text);
    const known = [...this.box.querySelectorAll("input")].map((one) => one.dataset.parameter);
    if (names.join() === known.join()) return;
    this.box.hidden = !names.length;
    this.box.replaceChildren(...names.map((name) => this.#field(name)));
  }

  // The statement with its values; null while one is missing.
  filled(sql) {
    const names = parametersOf(sql);
    const missing = names.find((name) => !this.values[name]?.trim());
    if (missing === undefined) return withParameters(sql, this.values);
    this.follow(sql);
    const field = this.box?.querySelector(`[data-parameter=${missing}]`);
    field?.setCustomValidity(say("parameter_missing", { name: missing }));
    field?.reportValidity();
    field?.setCustomValidity("");
    field?.focus();
    return null;
  }

  #field(name) {
    const label = document.createElement("label");
    const input = document.createElement("input");
    Object.assign(input, { type: "text", value: this.values[name] || "", autocomplete: "off" });
    input.dataset.parameter = name;
    label.append(name, input);
    return label;
  }
}
