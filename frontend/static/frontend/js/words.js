// Sentences of scripts, in the page's language: {% script_words %} puts them there.
const words = JSON.parse(document.getElementById("script-words").textContent);

export function say(key, values = {}) {
  return words[key].replace(/%\((\w+)\)s/g, (_, name) => values[name]);
}

// Read aloud by screen readers; nothing is shown.
export function announce(text) {
  document.getElementById("announcer").textContent = text;
}
