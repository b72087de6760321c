"use strict";
// Points, sorts, folds and copies. Without it the page shows everything it shows with it.
(() => {
  const root = document.documentElement;
  const all = (selector, from = document) => Array.from(from.querySelectorAll(selector));

  // The theme: as the system is, or one of the two, kept where the browser allows it.
  const themes = ["system", "light", "dark"];
  const themeButton = document.getElementById("theme");
  const kept = () => { try { return localStorage.getItem("weir-theme"); } catch { return null; } };
  const keep = (theme) => { try { localStorage.setItem("weir-theme", theme); } catch { /* a file may not keep anything */ } };
  const show = (theme) => {
    if (theme === "system") delete root.dataset.theme; else root.dataset.theme = theme;
    themeButton.textContent = `Theme: ${theme}`;
  };
  let theme = themes.includes(kept()) ? kept() : "system";
  show(theme);
  themeButton.addEventListener("click", () => {
    theme = themes[(themes.indexOf(theme) + 1) % themes.length];
    show(theme);
    keep(theme);
  });

  // All tables at once.
  const dataButton = document.getElementById("data");
  dataButton.addEventListener("click", () => {
    const open = dataButton.getAttribute("aria-pressed") !== "true";
    dataButton.setAttribute("aria-pressed", String(open));
    for (const details of all("figure details")) details.open = open;
  });

  // A heading sorts its table, the other way round when it is pressed again. What has no number comes last.
  const value = (cell) => cell.dataset.n === undefined ? null : Number(cell.dataset.n);
  const sort = (heading) => {
    const table = heading.closest("table");
    const column = Array.from(heading.parentNode.children).indexOf(heading);
    const numeric = heading.classList.contains("n");
    // Numbers begin with the greatest, names with the first.
    const was = heading.getAttribute("aria-sort");
    const descending = numeric ? was !== "descending" : was === "ascending";
    for (const other of all("th", table)) other.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", descending ? "descending" : "ascending");
    const sign = descending ? -1 : 1;
    const body = table.tBodies[0];
    const rows = Array.from(body.rows).sort((one, other) => {
      const [a, b] = [one.cells[column], other.cells[column]];
      const [x, y] = [value(a), value(b)];
      if (x !== null && y !== null) return sign * (x - y);
      if (x !== null || y !== null) return x === null ? 1 : -1;
      return sign * a.textContent.localeCompare(b.textContent);
    });
    body.append(...rows);
  };

  document.addEventListener("click", async (event) => {
    const heading = event.target.closest("th");
    if (heading) sort(heading);
    const button = event.target.closest(".copy");
    if (!button) return;
    const text = button.parentNode.querySelector("code").textContent;
    const copied = await copy(text);
    button.textContent = copied ? "Copied" : "Select it";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });

  async function copy(text) {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      const field = document.createElement("textarea");
      field.value = text;
      document.body.append(field);
      field.select();
      const done = document.execCommand("copy");
      field.remove();
      return done;
    }
  }

  // What is pointed at says its numbers, and its contender lights up in every chart.
  const tip = document.getElementById("tip");
  // Without a script the browser shows a mark's title after a while; here it is shown at once, and once.
  for (const title of all("svg title")) {
    title.parentNode.dataset.tip = title.textContent;
    title.remove();
  }
  const marks = new Map();
  for (const mark of all("svg [data-who]")) {
    if (!marks.has(mark.dataset.who)) marks.set(mark.dataset.who, []);
    marks.get(mark.dataset.who).push(mark);
  }
  let lit = null;
  const light = (who) => {
    if (who === lit) return;
    for (const mark of marks.get(lit) ?? []) mark.classList.remove("hot");
    for (const drawing of all("svg.dim")) drawing.classList.remove("dim");
    lit = who;
    for (const mark of marks.get(lit) ?? []) {
      mark.classList.add("hot");
      mark.ownerSVGElement.classList.add("dim");
    }
  };
  const point = (event) => {
    const mark = event.target.closest?.("[data-tip]");
    light(event.target.closest?.("svg [data-who]")?.dataset.who ?? null);
    tip.classList.toggle("on", Boolean(mark));
    if (!mark) return;
    tip.textContent = mark.dataset.tip;
    const box = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(4, Math.min(event.clientX + 14, innerWidth - box.width - 8))}px`;
    tip.style.top = `${Math.max(4, event.clientY - box.height - 12)}px`;
  };
  document.addEventListener("pointermove", point);
  document.addEventListener("pointerdown", point);
})();
