// A long name in a table breaks behind an underscore or the like, not within a word.
document.addEventListener("DOMContentLoaded", () => {
  for (const code of document.querySelectorAll("td code")) {
    if (code.children.length === 0) {
      const parts = code.textContent.split(/(?<=[_=/.]|\w-)(?=\w)/);
      code.replaceChildren(...parts.flatMap((part, at) => (at ? [document.createElement("wbr"), part] : [part])));
    }
  }
});
