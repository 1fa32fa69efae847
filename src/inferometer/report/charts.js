"use strict";
// The two charts, their controls and the card of one point. All figures come ready from the page's
// data: here they are only placed. Colours come from the style sheet, so that a scheme has one home.
(() => {
  const data = JSON.parse(document.getElementById("chart-data").textContent);
  const form = document.getElementById("controls");
  const card = document.getElementById("card");
  const page = document.documentElement;
  const scheme = matchMedia("(prefers-color-scheme: dark)");
  const touch = matchMedia("(pointer: coarse)").matches;
  const hidden = new Set();
  const MARGIN = { l: 74, r: 18, t: 14, b: 52 };
  const LABELLED = 40;
  const PAPER = [500, 290];
  const charts = [
    { id: "speed", more: true, side: "right", axis: (c) => `${c.basis}_${c.percentile}` },
    { id: "wait", more: false, side: "left", axis: (c) => `ttft_${c.percentile}_s` },
  ];
  let pinned = null;

  const colour = (name) => getComputedStyle(page).getPropertyValue(name).trim();
  const chosen = () => Object.fromEntries(new FormData(form));

  function element(tag, properties, ...children) {
    const made = Object.assign(document.createElement(tag), properties);
    made.append(...children);
    return made;
  }

  // ---- what is drawn

  function scene(chart, panel, choice) {
    const [xs, ys] = [data.values[chart.axis(choice)], data.values[choice.rate]];
    const series = panel.series.filter((item) => !hidden.has(item.name));
    const able = (i) => xs[i] !== null && ys[i] !== null;
    const points = series.flatMap((item) => item.members).filter(able);
    const low = Math.min(...points.map((i) => xs[i]));
    const high = Math.max(...points.map((i) => xs[i]));
    const log = !chart.more && low > 0 && high / low >= 10;
    const top = Math.max(...points.map((i) => ys[i]));
    const range = log ? [Math.log10(low / 1.3), Math.log10(high * 1.3)] : [0, high * 1.08 || 1];
    const place = log ? (i) => Math.log10(xs[i]) : (i) => xs[i];
    const key = `${chart.axis(choice)} ${choice.rate}`;
    const best = new Set(series.flatMap((item) => item.frontiers[key]));
    return { xs, ys, series, able, points, log, place, key, best, full: [range, [0, top * 1.1 || 1]] };
  }

  // A label goes where it hides no marker, no line and no other label, or not at all.
  function labels(drawn, ranges, width, height, side) {
    const [[x0, x1], [y0, y1]] = ranges;
    const spots = new Map(drawn.points.map((i) => [
      i, [((drawn.place(i) - x0) / (x1 - x0)) * width, ((y1 - drawn.ys[i]) / (y1 - y0)) * height],
    ]));
    const taken = [...spots.values()].map(([x, y]) => [x - 4, y - 4, x + 4, y + 4]);
    for (const item of drawn.series) taken.push(...along(item.frontiers[drawn.key].map((i) => spots.get(i))));
    const wanted = drawn.points.filter((i) => drawn.best.has(i));
    if (drawn.points.length <= LABELLED) wanted.push(...drawn.points.filter((i) => !drawn.best.has(i)));
    const placed = new Map();
    for (const i of wanted) {
      const [[x, y], length] = [spots.get(i), 6.4 * data.points[i].conc.length];
      const tries = {
        "top right": [x + 5, y - 17, x + 5 + length, y - 4],
        "top left": [x - 5 - length, y - 17, x - 5, y - 4],
        "bottom right": [x + 5, y + 4, x + 5 + length, y + 17],
        "bottom left": [x - 5 - length, y + 4, x - 5, y + 17],
      };
      const order = Object.entries(tries).sort(([a], [b]) => b.endsWith(side) - a.endsWith(side));
      for (const [where, [a, b, c, d]] of order) {
        const outside = a < 0 || b < 0 || c > width || d > height;
        if (outside || taken.some(([e, f, g, h]) => a < g && c > e && b < h && d > f)) continue;
        placed.set(i, where);
        taken.push([a, b, c, d]);
        break;
      }
    }
    return placed;
  }

  function along(line) {
    return line.slice(1).flatMap(([x, y], from) => {
      const [u, v] = line[from];
      const steps = Math.ceil(Math.hypot(x - u, y - v) / 5);
      return Array.from({ length: steps }, (_, step) => {
        const [a, b] = [u + ((x - u) * step) / steps, v + ((y - v) * step) / steps];
        return [a - 1, b - 1, a + 1, b + 1];
      });
    });
  }

  function traces(drawn, placed, ink) {
    return drawn.series.flatMap((item) => {
      const line = item.frontiers[drawn.key];
      const members = item.members.filter(drawn.able);
      const paint = ink.series[item.colour];
      const level = (i) => data.points[i].verdict;
      const symbol = { valid: "", degraded: "-open" };
      return [
        {
          type: "scatter", mode: "lines", hoverinfo: "skip", x: line.map((i) => drawn.xs[i]),
          y: line.map((i) => drawn.ys[i]), line: { color: paint, dash: item.dash, width: 2 },
        },
        {
          type: "scatter", mode: "markers+text", hoverinfo: "none", cliponaxis: false,
          x: members.map((i) => drawn.xs[i]), y: members.map((i) => drawn.ys[i]),
          customdata: members,
          text: members.map((i) => (placed.has(i) ? data.points[i].conc : "")),
          textposition: members.map((i) => placed.get(i) ?? "top right"),
          textfont: { color: ink.muted, size: 11 },
          marker: {
            color: paint,
            symbol: members.map((i) => (level(i) === "invalid" ? "x-thin-open" : item.shape + symbol[level(i)])),
            size: members.map((i) => (drawn.best.has(i) ? 10 : 8)),
            opacity: members.map((i) => (drawn.best.has(i) || level(i) === "invalid" ? 1 : 0.45)),
            line: {
              color: members.map((i) => (level(i) === "valid" ? ink.surface : paint)),
              width: members.map((i) => (level(i) === "valid" ? 1 : 2)),
            },
          },
        },
      ];
    });
  }

  function axisTitle(name, hint) {
    const { label, unit } = data.axes[name];
    return `${label}, ${unit}${hint && `  (${hint})`}`;
  }

  function decades([low, high]) {
    const values = [];
    for (let power = Math.floor(low); power <= Math.ceil(high); power += 1) {
      values.push(...[1, 2, 5].map((step) => Number((step * 10 ** power).toPrecision(1))));
    }
    return { tickvals: values, ticktext: values.map((value) => value.toLocaleString("en")) };
  }

  function layout(chart, choice, drawn, ranges, ink, width, height) {
    const shared = {
      gridcolor: ink.grid, linecolor: ink.strong, zeroline: false, showline: true, tickcolor: ink.strong,
      ticks: "outside", ticklen: 4, separatethousands: true, exponentformat: "none", automargin: false,
    };
    const scale = drawn.log ? { type: "log", tickmode: "array", ...decades(ranges[0]) } : { type: "linear" };
    const empty = { text: "No point has a value on both axes.", showarrow: false, xref: "paper", yref: "paper", x: 0.5, y: 0.5 };
    const hint = chart.more ? "more is better →" : `${drawn.log ? "log scale, " : ""}← less is better`;
    return {
      width, height, margin: MARGIN, paper_bgcolor: ink.surface, plot_bgcolor: ink.surface,
      font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: ink.muted },
      showlegend: false, hovermode: "closest", hoverdistance: 24, dragmode: touch ? false : "zoom",
      xaxis: { ...shared, ...scale, range: ranges[0], title: { text: axisTitle(chart.axis(choice), hint), standoff: 10, font: { size: 12 } } },
      yaxis: { ...shared, range: ranges[1], title: { text: axisTitle(choice.rate, ""), standoff: 8, font: { size: 12 } } },
      annotations: drawn.points.length ? [] : [empty],
    };
  }

  function palette() {
    const series = Array.from({ length: 8 }, (_, i) => colour(`--series-${i}`));
    const [muted, surface, grid, strong] = ["--muted", "--surface", "--grid", "--strong-line"].map(colour);
    return { series, muted, surface, grid, strong };
  }

  function missing(chart, panel, choice) {
    const axes = [chart.axis(choice), choice.rate];
    const why = new Map();
    for (const i of panel.series.flatMap((item) => item.members)) {
      const name = axes.find((axis) => data.reasons[axis][i] !== undefined);
      if (name === undefined) continue;
      const reason = `${data.axes[name].label}: ${data.reasons[name][i]}`;
      why.set(reason, [...(why.get(reason) ?? []), data.points[i].name]);
    }
    const total = [...why.values()].flat().length;
    const rows = [...why].map(([reason, names]) => element("li", {}, `${names.join(", ")} (${reason})`));
    const list = element("details", { open: total <= 12 },
      element("summary", {}, `Not drawn: ${total}`), element("ul", {}, ...rows));
    document.getElementById(`${chart.id}-missing`).replaceChildren(...(total ? [list] : []));
  }

  function drawChart(chart, panel, choice, ink) {
    const box = document.getElementById(chart.id);
    const printing = page.hasAttribute("data-printing");
    const [width, height] = printing ? PAPER : [box.clientWidth, box.clientHeight];
    const drawn = scene(chart, panel, choice);
    const ranges = chart.zoom ?? drawn.full;
    const inner = [width - MARGIN.l - MARGIN.r, height - MARGIN.t - MARGIN.b];
    const placed = labels(drawn, ranges, ...inner, chart.side);
    const config = {
      displaylogo: false, scrollZoom: false, showTips: false, displayModeBar: touch ? false : "hover",
      modeBarButtons: [["toImage", "resetScale2d"]],
      toImageButtonOptions: { filename: `${document.title} ${chart.id}`, scale: 2 },
    };
    const names = [choice.rate, chart.axis(choice)].map((name) => data.axes[name].label);
    document.getElementById(`${chart.id}-title`).textContent = `${panel.label}: ${names.join(" against ")}`;
    Plotly.react(box, traces(drawn, placed, ink),
      layout(chart, choice, drawn, ranges, ink, width, height), config);
    missing(chart, panel, choice);
    listen(chart, box, drawn);
  }

  function draw() {
    const choice = chosen();
    const panel = data.panels[choice.panel];
    if (panel === undefined) return;
    const ink = palette();
    for (const legend of document.querySelectorAll(".legend")) {
      legend.hidden = legend.dataset.panel !== choice.panel;
    }
    for (const chart of charts) drawChart(chart, panel, choice, ink);
  }

  // ---- the card of one point

  function fill(index) {
    const point = data.points[index];
    const rows = data.hover.flatMap((label, row) => {
      const [value, reason] = point.hover[row];
      const shown = element("dd", {}, value);
      if (reason) shown.append(element("small", {}, ` ${reason}`));
      return [element("dt", {}, label), shown];
    });
    const chip = element("span", { className: `chip ${point.verdict}` }, point.verdict);
    const close = element("button", { type: "button", onclick: unpin }, "Close");
    const link = element("a", { href: `#point-${index}`, onclick: unpin }, "Open in the table");
    card.replaceChildren(element("h3", {}, point.name, chip), element("dl", {}, ...rows));
    if (pinned !== null) card.append(element("p", {}, link, close));
    card.classList.toggle("pinned", pinned !== null);
    card.hidden = false;
  }

  function show(index, event) {
    fill(index);
    const [right, below] = [event.clientX + 18, event.clientY + 18];
    const left = right + card.offsetWidth < innerWidth - 8 ? right : event.clientX - card.offsetWidth - 18;
    const top = Math.min(below, innerHeight - card.offsetHeight - 8);
    card.style.left = `${Math.max(8, left) + scrollX}px`;
    card.style.top = `${Math.max(8, top) + scrollY}px`;
  }

  function unpin() {
    pinned = null;
    card.hidden = true;
  }

  function listen(chart, box, drawn) {
    chart.full = drawn.full;
    if (chart.listening) return;
    chart.listening = true;
    box.on("plotly_hover", ({ points, event }) => pinned ?? show(points[0].customdata, event));
    box.on("plotly_unhover", () => pinned ?? unpin());
    box.on("plotly_click", ({ points, event }) => {
      pinned = points[0].customdata;
      show(pinned, event);
    });
    box.on("plotly_relayout", (change) => {
      if (!Object.keys(change).some((name) => name.includes("axis"))) return;
      chart.zoom = [box.layout.xaxis.range.slice(), box.layout.yaxis.range.slice()];
      draw();
    });
  }

  // ---- the reader's choices; the address bar holds them, so that it can be shared

  function restore() {
    for (const [name, value] of new URLSearchParams(location.hash.slice(1))) {
      for (const input of form.elements[name] instanceof RadioNodeList ? form.elements[name] : []) {
        input.checked = input.value === value;
      }
    }
    for (const group of new Set([...form.elements].map((input) => input.name).filter(Boolean))) {
      if (!new FormData(form).has(group)) form.querySelector(`input[name="${group}"]`).checked = true;
    }
  }

  function changed() {
    for (const chart of charts) delete chart.zoom;
    history.replaceState(null, "", `#${new URLSearchParams(new FormData(form))}`);
    unpin();
    draw();
  }

  function printing(on) {
    page.toggleAttribute("data-printing", on);
    draw();
  }

  form.addEventListener("change", changed);
  document.addEventListener("click", ({ target }) => {
    const button = target.closest(".legend button");
    if (button === null) return;
    const on = button.getAttribute("aria-pressed") !== "true";
    const name = button.dataset.series;
    if (on) hidden.delete(name);
    else hidden.add(name);
    for (const twin of document.querySelectorAll(".legend button")) {
      if (twin.dataset.series === name) twin.setAttribute("aria-pressed", String(on));
    }
    draw();
  });
  document.addEventListener("keydown", ({ key }) => key === "Escape" && unpin());
  scheme.addEventListener("change", draw);
  addEventListener("beforeprint", () => printing(true));
  addEventListener("afterprint", () => printing(false));
  let waiting = 0;
  addEventListener("resize", () => {
    cancelAnimationFrame(waiting);
    waiting = requestAnimationFrame(draw);
  });
  restore();
  draw();
})();
