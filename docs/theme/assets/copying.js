// The copy button of a console block copies its commands, without prompts and without what they print.
document.addEventListener("DOMContentLoaded", () => {
  for (const block of document.querySelectorAll("pre > code")) {
    if (block.querySelector(".gp")?.textContent.startsWith("$")) {
      // The theme copies this attribute, where there is one, in place of the text.
      block.dataset.copy = commands(block.textContent).join("\n");
    }
  }

  // As `telling.commands` has them: behind "$ ", and on, while a line ends with a backslash.
  function commands(text) {
    const found = text.matchAll(/^\$ ((?:.*\\\n)*.*)$/gm);
    return [...found].map((each) => each[1]);
  }
});
