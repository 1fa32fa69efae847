"use strict";
// The table of points: sort, filter, and the sheet of a point, made when its row is first opened.
(() => {
  const table = document.getElementById("points");
  const body = table.tBodies[0];
  const heads = [...table.tHead.rows[0].cells];
  const rows = [...body.rows];
  const filters = ["scenario", "hardware", "verdict"];
  const collator = new Intl.Collator("en", { numeric: true });
  const more = document.getElementById("more");
  const FIRST = 300; // rows laid out at once: thousands make every sort and filter wait
  let limit = FIRST;
  let details = null;

  function element(tag, properties, ...children) {
    const made = Object.assign(document.createElement(tag), properties);
    made.append(...children);
    return made;
  }

  // ---- sort and filter

  const detailOf = (row) => document.getElementById(row.id.replace("point", "detail"));

  function compare(column, numeric, sign) {
    const key = (row) => {
      const cell = row.cells[column];
      if (!numeric) return cell.textContent;
      return cell.dataset.v === undefined ? null : Number(cell.dataset.v);
    };
    const keys = new Map(rows.map((row) => [row, key(row)]));
    return (one, two) => {
      const [a, b] = [keys.get(one), keys.get(two)];
      if (a === null || b === null) return (a === null) - (b === null);
      return sign * (numeric ? a - b : collator.compare(a, b));
    };
  }

  function sort(head) {
    const rising = head.getAttribute("aria-sort") !== "ascending";
    for (const other of heads) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", rising ? "ascending" : "descending");
    const column = heads.indexOf(head);
    const numeric = rows.some((row) => row.cells[column].dataset.v !== undefined);
    rows.sort(compare(column, numeric, rising ? 1 : -1));
    filter();
    body.append(...rows.flatMap((row) => [row, detailOf(row)].filter(Boolean)));
  }

  function filter() {
    const wanted = filters.map((name) => [name, document.getElementById(`filter-${name}`).value]);
    let matching = 0;
    for (const row of rows) {
      const out = wanted.some(([name, value]) => value !== "" && row.dataset[name] !== value);
      if (!out) matching += 1;
      row.hidden = out || matching > limit;
      const detail = detailOf(row);
      const opened = row.querySelector(".open").getAttribute("aria-expanded") === "true";
      if (detail) detail.hidden = row.hidden || !opened;
    }
    const [found, all] = [matching, rows.length].map((number) => number.toLocaleString("en"));
    document.getElementById("shown").textContent = `${found} of ${all} points`;
    more.hidden = matching <= limit;
    more.textContent = `The first ${FIRST} of these are shown. Show all ${found}`;
  }

  // ---- the sheet of one point

  const text = (position) => details.texts[position];

  function value([figure, note], tag = "td") {
    const cell = element(tag, { className: "number" }, text(figure));
    if (text(note)) {
      cell.title = text(note);
      cell.classList.add(text(figure) === "–" ? "null" : "noted");
    }
    return cell;
  }

  function section(title, style, ...children) {
    return element("section", { className: style }, element("h4", {}, title), ...children);
  }

  function grid(heads_, rows_, style = "") {
    const tops = heads_.map(([name, kind]) => element("th", { scope: "col", className: kind }, name));
    const made = element("table", { className: style }, element("thead", {}, element("tr", {}, ...tops)),
      element("tbody", {}, ...rows_));
    return element("div", { className: "scroll" }, made);
  }

  function named(label, ...cells) {
    return element("tr", {}, element("th", { scope: "row" }, label), ...cells);
  }

  function verdict(point) {
    const items = point.reasons.map((reason) => {
      const [level, code, message, seen, bound] = reason.map(text);
      const figures = [["seen", seen], ["bound", bound]].filter(([, figure]) => figure !== "–");
      return element("li", {}, element("span", { className: `chip ${level}` }, level), " ",
        element("code", {}, code), ` ${message} `,
        element("span", { className: "note" }, figures.map((pair) => pair.join(" ")).join(", ")));
    });
    const remarks = point.remarks.map((remark) => element("li", {}, remark.map(text).join(": ")));
    const labels = point.labels.map((label) => element("li", {}, `Label: ${text(label)}`));
    const none = element("p", { className: "note" }, "No reason to doubt this point was found.");
    const list = element("ul", {}, ...items, ...labels, ...remarks);
    return section("Verdict", "", list.children.length ? list : none);
  }

  function latencies(point) {
    const heads_ = [["Latency and interactivity", ""], ...details.statistics.map((name) => [name, "number"])];
    const rows_ = point.matrix.map(({ row, cells }) => {
      const [label, unit, definition] = row.map(text);
      const made = named(`${label} `, ...cells.map((cell) => value(cell)));
      made.firstChild.append(element("span", { className: "unit" }, unit));
      made.firstChild.title = definition;
      return made;
    });
    return section("Distributions", "", grid(heads_, rows_));
  }

  function group({ name, rows: members }) {
    const rows_ = members.map(([label, definition, ...cell]) => {
      const made = named(text(label), value(cell));
      made.firstChild.title = text(definition);
      return made;
    });
    return section(name, "third", grid([["Metric", ""], ["Value", "number"]], rows_));
  }

  function pairs(title, style, members, kind = "") {
    const rows_ = members.map(([name, shown]) => named(text(name), element("td", { className: kind }, text(shown))));
    return section(title, style, grid([["Name", ""], ["Value", kind]], rows_));
  }

  const verbatim = (content) => element("pre", { tabIndex: 0 }, text(content));

  function launch(point) {
    const router = point.router.length
      ? [element("h4", {}, `Router ${text(point.router[0])}`), verbatim(point.router[1])] : [];
    const files = point.files.flatMap(([path, content]) => [element("h4", {}, `File ${text(path)}`), verbatim(content)]);
    return section(`Launch: image ${text(point.image)}`, "", verbatim(point.command), ...router, ...files);
  }

  function settings(point) {
    const heads_ = ["Setting", "Value", "Set by", "When", "Expression"].map((name) => [name, ""]);
    const rows_ = point.settings.map((row) =>
      element("tr", {}, ...row.map((cell) => element("td", {}, element("code", {}, text(cell))))));
    return section("Every value and the rule that set it", "", grid(heads_, rows_, "settings"));
  }

  function sheet(index) {
    details ??= JSON.parse(document.getElementById("detail-data").textContent);
    const point = details.points[index];
    return element("div", { className: "sheet" }, verdict(point), latencies(point),
      ...point.groups.map(group), pairs("Requests", "third", point.counts, "number"),
      pairs("Identity", "", point.identity), launch(point), settings(point));
  }

  function toggle(button, open = button.getAttribute("aria-expanded") !== "true") {
    const row = button.closest("tr");
    let detail = detailOf(row);
    if (detail === null) {
      const cell = element("td", { colSpan: heads.length }, sheet(Number(row.id.slice("point-".length))));
      detail = element("tr", { className: "detail", id: row.id.replace("point", "detail") }, cell);
      row.after(detail);
    }
    button.setAttribute("aria-expanded", String(open));
    detail.hidden = !open;
  }

  function follow() {
    const row = /^#point-\d+$/.test(location.hash) && document.querySelector(location.hash);
    if (!row) return;
    for (const name of filters) document.getElementById(`filter-${name}`).value = "";
    if (rows.indexOf(row) >= limit) limit = Infinity;
    filter();
    toggle(row.querySelector(".open"), true);
    row.scrollIntoView({ block: "start" });
    row.querySelector(".open").focus({ preventScroll: true });
  }

  for (const head of heads) head.querySelector(".sort")?.addEventListener("click", () => sort(head));
  for (const name of filters) document.getElementById(`filter-${name}`).addEventListener("change", filter);
  body.addEventListener("click", ({ target }) => {
    const button = target.closest(".open");
    if (button) toggle(button);
  });
  more.addEventListener("click", () => {
    limit = Infinity;
    filter();
  });
  addEventListener("beforeprint", () => more.click());
  addEventListener("hashchange", follow);
  filter();
  follow();
})();
