// The form with the class "narrowing" hides entries that do not have what is chosen in it: for a
// select of the name n, in data-n, words with spaces between them; for the text, anywhere. The
// choice is kept in the address, so that it can be sent to somebody.
document.addEventListener("DOMContentLoaded", () => {
  const form = document.querySelector("form.narrowing");
  if (!form) return;
  const entries = [...document.querySelectorAll(".entry")];
  const texts = new Map(entries.map((entry) => [entry, entry.textContent.toLowerCase()]));

  for (const [name, value] of new URLSearchParams(location.search)) {
    const control = form.elements[name];
    if (control) control.value = value;
    // A select has no value that is none of its options.
    if (control?.selectedIndex === -1) control.value = "";
  }
  form.hidden = false;
  narrow();
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", remember);
  form.addEventListener("reset", () => setTimeout(remember));
  addEventListener("hashchange", reveal);
  reveal();

  function chosen() {
    return [...new FormData(form)].filter(([, value]) => value.trim());
  }

  function narrow() {
    const choices = chosen();
    for (const entry of entries) {
      entry.hidden = !choices.every(([name, value]) => has(entry, name, value));
    }
    const shown = entries.filter((entry) => !entry.hidden).length;
    form.querySelector("output").value = `${shown} of ${entries.length} shown`;
    form.querySelector("[type=reset]").disabled = choices.length === 0;
  }

  function has(entry, name, value) {
    if (name !== "text") return entry.dataset[name].split(" ").includes(value);
    return value.toLowerCase().trim().split(/\s+/).every((word) => texts.get(entry).includes(word));
  }

  function remember() {
    const query = new URLSearchParams(chosen()).toString();
    // What is chosen may hide the anchor's entry, so that the address has only one of both.
    history.replaceState(null, "", location.pathname + (query ? `?${query}` : location.hash));
    narrow();
  }

  // A link to an entry that is hidden shows all of them.
  function reveal() {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (target?.closest(".entry")?.hidden) {
      form.reset();
      narrow();
      target.scrollIntoView();
    }
  }
});
