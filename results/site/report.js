"use strict";
// Without this script the page shows the same: a figure's link then opens its PNG, and tables keep their order.

const MISSING = new Set(["", "\u2013"]);

// The number that a cell begins with ("61.6 (n=5)", "< 0.001", "\u22128.5 to +1.2"), NaN where it begins with none.
function leading(text) {
  const found = text.replaceAll("\u2212", "-").replaceAll(",", "").match(/^[<>+\s]*(-?\d+(?:\.\d+)?)(?![\w.])/);
  return found ? Number(found[1]) : NaN;
}

function compare(a, b) {
  const [x, y] = [leading(a), leading(b)];
  return Number.isNaN(x) || Number.isNaN(y) ? a.localeCompare(b, "en", { numeric: true }) : x - y;
}

// Rows of one group stay together; what is missing stays last in either direction.
function sort(table, column, direction) {
  for (const body of table.tBodies) {
    const rows = [...body.rows].filter((row) => !row.classList.contains("group"));
    const text = (row) => row.cells[column]?.textContent.trim() ?? "";
    for (const row of rows) row.dataset.place ??= String(rows.indexOf(row));
    rows.sort((r, s) => {
      const gone = MISSING.has(text(r)) - MISSING.has(text(s));
      return direction === 0 ? r.dataset.place - s.dataset.place : gone || direction * compare(text(r), text(s));
    });
    body.append(...rows);
  }
}

// First click: ascending; second: descending; third: as it was.
function click(table, header) {
  const next = { none: "ascending", ascending: "descending", descending: "none" }[header.getAttribute("aria-sort")];
  for (const other of header.parentElement.cells) other.setAttribute("aria-sort", other === header ? next : "none");
  sort(table, header.cellIndex, { none: 0, ascending: 1, descending: -1 }[next]);
}

function sortable(table) {
  const whole = [...table.tBodies].every((body) => !body.querySelector("[rowspan]"));
  if (!table.tHead || !whole) return;
  for (const header of table.tHead.rows[table.tHead.rows.length - 1].cells) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "sort";
    button.title = "Sort by this column";
    button.append(...header.childNodes);
    button.addEventListener("click", () => click(table, header));
    header.setAttribute("aria-sort", "none");
    header.append(button);
  }
}

// The label of a control in the row of controls above a table.
function labelled(text, control) {
  const label = document.createElement("label");
  label.append(text, control);
  return label;
}

const MANY = 8; // methods from which a table can be filtered
// What a user looks for; names of methods have commas, so semicolons stand between.
const words = (text) => text.toLowerCase().split(";").map((word) => word.trim()).filter(Boolean);
const holds = (text, wanted) => !wanted.length || wanted.some((word) => text.toLowerCase().includes(word));

// Shows the columns whose heading holds a word. The first column and that of NoRAG stay.
function showColumns(table, wanted) {
  const headings = [...table.tHead.rows[table.tHead.rows.length - 1].cells];
  const shown = headings.map((cell, i) => i === 0 || cell.textContent === "NoRAG" || holds(cell.textContent, wanted));
  for (const row of table.rows) {
    if (!row.classList.contains("group")) [...row.cells].forEach((cell, i) => { cell.hidden = !shown[i]; });
  }
}

// The rows of a body without the row that names its group.
const ownRows = (body) => [...body.rows].filter((row) => !row.classList.contains("group"));

// Shows the rows that hold a word and have what was chosen in each column with a choice; says how many.
function showRows(table, wanted, choices, count) {
  let shown = 0;
  let all = 0;
  for (const body of table.tBodies) {
    const rows = ownRows(body);
    for (const row of rows) {
      const chosen = choices.every(([column, select]) => !select.value || row.cells[column].textContent === select.value);
      row.hidden = !(chosen && holds(row.textContent, wanted));
    }
    const visible = rows.filter((row) => !row.hidden).length;
    body.hidden = !visible;
    shown += visible;
    all += rows.length;
  }
  count.textContent = `${shown} of ${all} rows`;
}

function choice(table, column) {
  const select = document.createElement("select");
  const values = new Set([...table.tBodies].flatMap((body) => ownRows(body).map((row) => row.cells[column].textContent)));
  select.append(new Option("all", ""), ...[...values].sort().map((value) => new Option(MISSING.has(value) ? `${value} (none)` : value, value)));
  return [column, select];
}

// Methods are columns in a table of pass@1 and on the first page, and rows elsewhere.
function filterable(table) {
  const frame = table.closest(".scroll");
  if (!table.tHead || !frame) return;
  const headings = [...table.tHead.rows[table.tHead.rows.length - 1].cells];
  const across = table.matches(".pass, .tasks, #experiments");
  const rows = [...table.tBodies].reduce((sum, body) => sum + body.rows.length, 0);
  const grouped = table.tHead.rows.length > 1 || table.querySelector("tbody [rowspan]");
  if ((across ? headings.length : rows) < MANY || (grouped && across)) return;
  const choices = headings.filter((cell) => "choose" in cell.dataset).map((cell) => choice(table, cell.cellIndex));
  const input = document.createElement("input");
  input.type = "search";
  input.placeholder = across ? "BM25; PKG" : "words; more words";
  const count = document.createElement("output");
  const update = () => across ? showColumns(table, words(input.value)) : showRows(table, words(input.value), choices, count);
  const controls = document.createElement("div");
  controls.className = "filters";
  controls.append(labelled(across ? "Show only methods" : "Show only rows with", input));
  for (const [column, select] of choices) controls.append(labelled(headings[column].textContent, select));
  if (!across) controls.append(count);
  controls.addEventListener("input", update);
  frame.before(controls);
  update();
}

// Says below a table that it goes on beyond its frame, and where.
// The edges at which a frame cuts its content now; they fade out, so that no cut number looks whole.
function markCuts(frame) {
  frame.classList.toggle("more-right", frame.scrollLeft + frame.clientWidth < frame.scrollWidth - 2);
  frame.classList.toggle("more-down", frame.scrollTop + frame.clientHeight < frame.scrollHeight - 2);
  frame.style.setProperty("--bar-x", `${frame.offsetWidth - frame.clientWidth}px`);
  frame.style.setProperty("--bar-y", `${frame.offsetHeight - frame.clientHeight}px`);
}

function hintAtMore(frame) {
  const right = frame.scrollWidth > frame.clientWidth + 2;
  const down = frame.scrollHeight > frame.clientHeight + 2;
  markCuts(frame);
  let hint = frame.nextElementSibling;
  if (!hint?.classList.contains("hint")) {
    hint = document.createElement("p");
    hint.className = "note hint";
    frame.after(hint);
  }
  const what = [right && (frame.matches("pre") ? "more on the right" : "more columns on the right"), down && "more rows below"].filter(Boolean);
  hint.textContent = what.length ? `The ${frame.matches("pre") ? "code" : "table"} scrolls: ${what.join(", ")}.` : "";
  hint.hidden = !what.length;
}

function enlarge(event) {
  const dialog = document.getElementById("large");
  const small = event.currentTarget.querySelector("img");
  const image = document.createElement("img");
  image.src = event.currentTarget.href;
  image.alt = small.alt;
  image.style.setProperty("--ratio", small.naturalWidth / small.naturalHeight || 1);
  document.getElementById("large-place").replaceChildren(image);
  document.getElementById("large-caption").textContent = small.alt;
  event.preventDefault();
  dialog.showModal();
}

// Tables of the documentation are read in their order.
document.querySelectorAll("main:not(.document) table").forEach(filterable);
document.querySelectorAll("main:not(.document) table").forEach(sortable);
const sizes = new ResizeObserver((entries) => entries.forEach((entry) => hintAtMore(entry.target.closest(".scroll, pre"))));
const side = document.querySelector("nav.side");
if (side) {
  new ResizeObserver(() => markCuts(side)).observe(side);
  side.addEventListener("scroll", () => markCuts(side), { passive: true });
}
document.querySelectorAll("main .scroll, main.document pre").forEach((frame) => {
  sizes.observe(frame);
  frame.addEventListener("scroll", () => markCuts(frame), { passive: true });
  if (frame.firstElementChild) sizes.observe(frame.firstElementChild);
});
document.querySelectorAll("a.large").forEach((link) => link.addEventListener("click", enlarge));
document.getElementById("large")?.addEventListener("click", (event) => {
  if (event.target === event.currentTarget) event.currentTarget.close();
});
