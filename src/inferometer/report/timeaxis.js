"use strict";
// One axis of time for all pictures of a point, and the panels of curves on it. Times are seconds
// from the window's start. A panel out of sight is drawn when it comes into sight.
const timeAxis = (() => {
  const root = document.documentElement;
  const data = JSON.parse(document.getElementById("data").textContent);
  const whole = pad(data.span);
  const LEAST = 0.002;
  const MARGIN = { l: 62, r: 14, t: 8, b: 24 };
  const COLOURS = 8;
  const PAPER = [1000, 120]; // of a panel on A4 across, in px: the paper's width is not known here
  const CONFIG = { displayModeBar: false, doubleClick: false, responsive: false, showTips: false };
  const touch = matchMedia("(hover: none)").matches;
  const listeners = [];
  let range = whole;

  function pad([first, last]) {
    const more = Math.max((last - first) * 0.01, 0.001);
    return [first - more, last + more];
  }

  function colour(name) {
    return getComputedStyle(root).getPropertyValue(name).trim();
  }

  function sums(values) {
    let sum = 0;
    return values.map((value) => (sum += value));
  }

  function set(low, high) {
    const width = Math.min(Math.max(high - low, LEAST), whole[1] - whole[0]);
    const middle = (low + high) / 2;
    const first = Math.min(Math.max(middle - width / 2, whole[0]), whole[1] - width);
    range = [first, first + width];
    const digits = width < 1 ? 4 : width < 30 ? 2 : 0;
    const words = range.map((at) => at.toFixed(digits));
    document.getElementById("shown").textContent = `${words[0]} s to ${words[1]} s`;
    for (const listener of listeners) listener(range);
  }

  function zoom(factor, at = (range[0] + range[1]) / 2) {
    set(at - (at - range[0]) * factor, at + (range[1] - at) * factor);
  }

  function move(share) {
    const by = (range[1] - range[0]) * share;
    set(range[0] + by, range[1] + by);
  }

  const acts = {
    whole: () => set(...whole),
    window: () => set(...pad([0, data.window])),
    in: () => zoom(0.5),
    out: () => zoom(2),
    left: () => move(-0.25),
    right: () => move(0.25),
  };

  // ---- panels

  const panels = data.panels.map((panel) => ({
    ...panel,
    box: document.getElementById(`panel-${panel.key}`),
    curves: panel.curves.map((curve) => ({
      ...curve,
      x: sums(curve.at).map((at) => at / 1000),
      y: curve.values.map((value) => (value === null ? null : value / 10 ** curve.scale)),
    })),
    seen: false,
    stale: "all",
  }));

  function traces(panel) {
    return panel.curves.map((curve, index) => ({
      x: curve.x,
      y: curve.y,
      name: curve.name,
      mode: curve.kind === "dots" ? "markers" : "lines",
      line: {
        color: colour(curve.kind === "limit" ? "--muted" : `--series-${index % COLOURS}`),
        width: 1.4,
        dash: curve.kind === "limit" ? "dash" : "solid",
        shape: curve.kind === "steps" ? "hv" : "linear",
      },
      marker: { color: colour(`--series-${index % COLOURS}`), size: 3.5 },
      connectgaps: false,
    }));
  }

  function highest(panel) {
    return panel.curves.reduce((top, { y }) => y.reduce((most, value) => Math.max(most, value), top), 0);
  }

  // Of a panel in orders of magnitude: from the decade below its least value, no more than six.
  function decades(panel) {
    const known = panel.curves.flatMap(({ y }) => y.filter((value) => value > 0));
    const top = Math.log10(highest(panel) || 1);
    const low = Math.floor(Math.log10(known.reduce((least, value) => Math.min(least, value), Infinity)));
    return [Math.max(Number.isFinite(low) ? low : 0, top - 6), top + 0.08];
  }

  function values(panel) {
    if (panel.log) return { type: "log", range: decades(panel), dtick: 1 };
    return { range: [0, highest(panel) * 1.06 || 1], nticks: 5 };
  }

  function layout(panel) {
    const printing = root.hasAttribute("data-printing");
    const [width, height] = printing ? PAPER : [panel.box.clientWidth, panel.box.clientHeight];
    const line = { gridcolor: colour("--grid"), linecolor: colour("--strong-line"), zeroline: false };
    const edge = { type: "line", xref: "x", yref: "paper", y0: 0, y1: 1, line: { color: colour("--accent"), width: 1 } };
    return {
      paper_bgcolor: colour("--surface"),
      plot_bgcolor: colour("--surface"),
      font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: colour("--ink") },
      width,
      height,
      margin: MARGIN,
      showlegend: false,
      dragmode: touch ? false : "zoom",
      hovermode: false,
      xaxis: { ...line, range: [...range], ticksuffix: " s", nticks: innerWidth < 640 ? 5 : 12 },
      yaxis: { ...line, fixedrange: true, ...values(panel) },
      shapes: [
        { type: "rect", xref: "x", yref: "paper", x0: 0, x1: data.window, y0: 0, y1: 1, layer: "below", line: { width: 0 }, fillcolor: colour("--accent"), opacity: 0.08 },
        { ...edge, x0: 0, x1: 0 },
        { ...edge, x0: data.window, x1: data.window },
      ],
    };
  }

  function draw(panel, unseen = false) {
    if (!(panel.seen || unseen) || panel.stale === "") return;
    const first = panel.box.on === undefined;
    if (panel.stale === "all") Plotly.react(panel.box, traces(panel), layout(panel), CONFIG);
    else Plotly.relayout(panel.box, { "xaxis.range": [...range] });
    panel.stale = "";
    if (first) follow(panel);
  }

  let waiting = 0;
  function stale(how) {
    for (const panel of panels) if (panel.stale !== "all") panel.stale = how;
    cancelAnimationFrame(waiting);
    waiting = requestAnimationFrame(() => panels.forEach((panel) => draw(panel)));
  }

  function follow(panel) {
    panel.box.on("plotly_relayout", (change) => {
      if (change["xaxis.range[0]"] === undefined) return;
      panel.stale = "range"; // it has the range as dragged, and is to have it as it was allowed
      set(change["xaxis.range[0]"], change["xaxis.range[1]"]);
    });
    panel.box.on("plotly_doubleclick", acts.whole);
  }

  const watcher = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      const panel = panels.find(({ box }) => box === target);
      panel.seen = isIntersecting;
      draw(panel);
    }
  }, { rootMargin: "200px" });

  // What was not yet in view, one at a time, for a picture of the whole page.
  const later = window.requestIdleCallback ?? ((work) => setTimeout(work, 50));
  function rest() {
    const panel = panels.find(({ box }) => box.on === undefined);
    if (panel === undefined) return;
    draw(panel, true);
    later(rest);
  }
  addEventListener("load", () => later(rest));

  // ---- the line under the pointer, and what every curve is there

  const stack = document.getElementById("panels");
  const cursor = document.getElementById("cursor");
  const reading = stack.getElementsByClassName("at");

  function valueAt({ x, y, kind }, at) {
    let [low, high] = [0, x.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (x[middle] <= at) low = middle + 1;
      else high = middle;
    }
    if (low === 0 || (low === x.length && at > x.at(-1))) return null;
    const nearer = kind !== "steps" && low < x.length && x[low] - at < at - x[low - 1];
    return y[nearer ? low : low - 1];
  }

  function read(at) {
    let place = 0;
    for (const { curves } of panels) {
      for (const curve of curves) {
        const value = at === null ? null : valueAt(curve, at);
        const digits = value === null ? "" : value.toLocaleString("en", { maximumSignificantDigits: 4 });
        reading[place].textContent = at === null ? "" : digits || "–";
        place += 1;
      }
    }
  }

  function point(event) {
    const box = event.target.closest?.(".plot");
    const area = box?.getBoundingClientRect();
    const x = area ? event.clientX - area.left : -1;
    cursor.hidden = !box || x < MARGIN.l || x > area.width - MARGIN.r;
    if (cursor.hidden) return read(null);
    const at = range[0] + ((x - MARGIN.l) / (area.width - MARGIN.l - MARGIN.r)) * (range[1] - range[0]);
    cursor.style.left = `${x + area.left - stack.getBoundingClientRect().left}px`;
    return read(at);
  }

  stack.addEventListener("pointermove", point);
  stack.addEventListener("pointerleave", () => {
    cursor.hidden = true;
    read(null);
  });

  // ---- what redraws all

  function again() {
    stale("all");
    for (const listener of listeners) listener(range);
  }

  function printing(on) {
    root.toggleAttribute("data-printing", on);
    for (const panel of panels) {
      panel.seen = panel.seen || on;
      panel.stale = "all";
      draw(panel);
    }
    for (const listener of listeners) listener(range);
  }

  function start() {
    listeners.push(() => stale("range"));
    for (const panel of panels) watcher.observe(panel.box);
    document.getElementById("range").addEventListener("click", ({ target }) => {
      acts[target.closest("button")?.dataset.range]?.();
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
    addEventListener("resize", again);
    addEventListener("beforeprint", () => printing(true));
    addEventListener("afterprint", () => printing(false));
    set(...whole);
  }

  return { data, MARGIN, acts, colour, sums, set, zoom, move, start, range: () => range, onChange: (call) => listeners.push(call) };
})();
