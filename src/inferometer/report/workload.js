"use strict";
// The pictures of a workload's page. All figures come ready from the page's data; colours come from
// the style sheet, and are taken anew when the scheme changes.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const root = document.documentElement;
  const colour = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  const CONFIG = { displayModeBar: false, responsive: true };

  function layout(x, y) {
    const axis = {
      gridcolor: colour("--grid"),
      linecolor: colour("--strong-line"),
      zerolinecolor: colour("--line"),
      automargin: true,
    };
    return {
      paper_bgcolor: colour("--surface"),
      plot_bgcolor: colour("--surface"),
      font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: colour("--ink") },
      margin: { l: 52, r: 14, t: 10, b: 40 },
      showlegend: false,
      hovermode: "closest",
      hoverlabel: { bgcolor: colour("--surface"), font: { color: colour("--ink") } },
      xaxis: { ...axis, ...x },
      yaxis: { ...axis, ...y },
    };
  }

  function cache() {
    const line = { color: colour("--series-0"), width: 2 };
    const sized = {
      x: data.sizes, y: data.hits, mode: "lines+markers", line, marker: { size: 7 },
      hovertemplate: "%{x:,.0f} tokens: %{y:.2%}<extra></extra>",
    };
    const ends = [...data.sizes, data.holdsAll].filter((size) => size > 0);
    const endless = {
      x: [Math.min(...ends), Math.max(...ends)], y: [data.endless, data.endless], mode: "lines",
      line: { color: colour("--muted"), dash: "dash", width: 1.5 },
      hovertemplate: "without end: %{y:.2%}<extra></extra>",
    };
    const x = { type: "log", title: { text: "tokens" }, dtick: 1 };
    const y = { tickformat: ".0%", range: [0, 1.02] };
    Plotly.react("cache", ends.length ? [sized, endless] : [sized], layout(x, y), CONFIG);
  }

  function inUse() {
    const most = data.atSeconds.at(-1) - data.atSeconds[0];
    const [unit, size] = most > 7200 ? ["hours", 3600] : most > 300 ? ["minutes", 60] : ["s", 1];
    const trace = {
      x: data.atSeconds.map((at) => (at - data.atSeconds[0]) / size), y: data.inUse,
      mode: "lines", fill: "tozeroy", line: { color: colour("--series-2"), width: 1.5 },
      hovertemplate: `%{x:.2f} ${unit}: %{y:,.0f} tokens<extra></extra>`,
    };
    const y = { title: { text: "tokens" }, rangemode: "tozero" };
    Plotly.react("use", [trace], layout({ title: { text: unit } }, y), CONFIG);
  }

  function spread(one, index) {
    const low = one.edges.slice(0, -1).map((edge) => Math.max(edge, 1e-9));
    const high = one.edges.slice(1);
    const trace = {
      type: "bar", x: low.map((edge, i) => Math.sqrt(edge * high[i])), y: one.counts,
      width: low.map((edge, i) => high[i] - edge), marker: { color: colour("--series-0") },
      customdata: low.map((edge, i) => [edge, high[i]]),
      hovertemplate: "%{customdata[0]:,.3~g} to %{customdata[1]:,.3~g}: %{y:,}<extra></extra>",
    };
    const x = { type: "log", nticks: 6 };
    const made = layout(x, { rangemode: "tozero" });
    Plotly.react(`spread-${index}`, [trace], { ...made, bargap: 0 }, CONFIG);
  }

  function draw() {
    cache();
    inUse();
    data.spreads.forEach(spread);
  }

  draw();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
})();
