// The filters of the matrix of engines. The page has every row; this hides those that do not match.
// The filters stand in the query of the address, so that a reload or a link brings them back.
(() => {
  const form = document.querySelector("[data-filters]");
  const status = document.querySelector("[data-status]");
  const rows = [...document.querySelectorAll("tr[data-name]")];
  const nothing = document.querySelector("[data-nothing]");
  const ways = [...document.querySelectorAll("[data-whole]")];
  const everything = status.textContent;
  const searched = new Map([
    ...rows.map((row) => [row, row.textContent.toLowerCase()]),
    ...ways.map((way) => [way, `${way.dataset.whole} ${way.dataset.buildName} ${way.textContent}`.toLowerCase()]),
  ]);

  form.hidden = false;
  const unknown = read();
  show();
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", changed);
  // The controls are empty only after this event.
  form.addEventListener("reset", () => setTimeout(changed));
  addEventListener("popstate", () => (form.reset(), read(), show()));

  // A link leads to its row, whatever the filters are.
  addEventListener("hashchange", () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target?.closest("tr[hidden]")) return;
    form.reset();
    setTimeout(() => target.scrollIntoView());
  });

  // Set the controls to what the address says; return what it says and no control has.
  function read() {
    const unknown = [];
    for (const [name, value] of new URLSearchParams(location.search)) {
      const controls = [...form.querySelectorAll(`[name="${CSS.escape(name)}"]`)];
      const box = controls.find((each) => each.type === "checkbox" && each.value === value);
      const [first] = controls;
      if (box) box.checked = true;
      else if (first?.type === "search") first.value = value;
      else if (first?.options && [...first.options].some((each) => each.value === value)) first.value = value;
      else if (first) unknown.push(`${name} “${value}”`);
    }
    return unknown;
  }

  function changed() {
    unknown.length = 0;
    const asked = new URLSearchParams([...new FormData(form)].filter(([, value]) => value.trim()));
    history.replaceState(null, "", `${asked.size ? `?${asked}` : location.pathname}${location.hash}`);
    show();
  }

  // A version is found from its beginning: 0.33 is no part of 1.0.33.
  function has(text, word) {
    if (!/^\d/.test(word)) return text.includes(word);
    for (let at = text.indexOf(word); at >= 0; at = text.indexOf(word, at + 1)) {
      if (!at || !/[\w.]/.test(text[at - 1])) return true;
    }
    return false;
  }

  function show() {
    const asked = new FormData(form);
    const states = asked.getAll("state");
    const words = asked.get("text").toLowerCase().split(/\s+/);
    const matches = (row) =>
      (!states.length || states.includes(row.dataset.state)) &&
      ["engine", "algorithm"].every((name) => !asked.get(name) || asked.get(name) === row.dataset[name]) &&
      (!asked.get("lane") || row.dataset.lane.split(" ").includes(asked.get("lane"))) &&
      words.every((word) => has(searched.get(row), word));

    for (const row of rows) row.hidden = !matches(row);
    const shown = rows.filter((row) => !row.hidden);
    const names = new Set(shown.map((row) => row.dataset.name));
    for (const part of document.querySelectorAll("[data-rows]")) {
      part.hidden = !part.dataset.rows.split(" ").some((name) => names.has(name));
    }
    // What an engine writes shows neither the algorithm of its verifier nor a lane.
    const isAboutVerifiers = asked.get("algorithm") || asked.get("lane");
    for (const way of ways) {
      way.hidden = !(
        !isAboutVerifiers &&
        (!states.length || states.includes(way.dataset.state)) &&
        (!asked.get("engine") || asked.get("engine") === way.dataset.whole) &&
        words.every((word) => has(searched.get(way), word))
      );
    }
    for (const build of document.querySelectorAll("[data-build]")) {
      build.hidden = !build.querySelector("[data-whole]:not([hidden])");
    }
    for (const group of document.querySelectorAll("[data-group]")) {
      group.hidden = !group.querySelector("[data-rows]:not([hidden]), [data-whole]:not([hidden])");
    }
    const whole = ways.filter((way) => !way.hidden).length;
    nothing.hidden = Boolean(shown.length || whole);
    const told =
      shown.length === rows.length
        ? everything
        : `${shown.length} of ${rows.length} rows and ${whole} of ${ways.length} methods of whole engines match.`;
    const ignored = unknown.length ? ` The address asks for ${unknown.join(" and ")}, which no row has.` : "";
    status.textContent = told + ignored;
  }
})();
