// Formulas are marked by arithmatex; KaTeX sets them when the page is there.
document.addEventListener("DOMContentLoaded", () => {
  const delimiters = [
    { left: "\\[", right: "\\]", display: true },
    { left: "\\(", right: "\\)", display: false },
  ];
  for (const marked of document.querySelectorAll(".arithmatex")) {
    renderMathInElement(marked, { delimiters, throwOnError: true });
  }
});
