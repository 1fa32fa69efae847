"use strict";
// Requests as bars, a lane under the other, on a canvas: of thousands only those in sight are drawn.
// In a row nothing overlaps, so that what is in sight is found by halving.
(() => {
  const { data, MARGIN, acts, colour, sums } = timeAxis;
  const all = data.requests;
  const box = document.getElementById("lanes");
  const canvas = document.getElementById("bars");
  const card = document.getElementById("card");
  const TICK = 1e-4;
  const HEAD = 24;
  const KEYS = { ArrowLeft: acts.left, ArrowRight: acts.right, "+": acts.in, "-": acts.out, Home: acts.whole };
  let height = 0;
  let width = 0;
  let marked = -1;
  let drag = null;

  // ---- bars

  const rows = [];
  const opened = new Float64Array(all.opened.length);
  const closed = new Float64Array(all.opened.length);
  all.counts.reduce((from, count, row) => {
    sums(all.opened.slice(from, from + count)).forEach((at, index) => { opened[from + index] = at * TICK; });
    rows.push({ lane: all.lanes[row], track: all.tracks[row], from, to: from + count, y: 0 });
    return from + count;
  }, 0);
  opened.forEach((at, bar) => { closed[bar] = at + all.last[bar] * TICK; });

  // ---- places

  let size = 0;
  let gap = 0;
  let outer = 0;
  function place() {
    box.style.height = "";
    const wanted = Math.floor((box.clientHeight - HEAD - 6) / Math.max(rows.length, 1));
    size = Math.min(Math.max(wanted - 2, 4), 16);
    gap = size < 6 ? 2 : 5;
    let y = 4;
    rows.forEach((row, index) => {
      if (index > 0) y += size + (row.lane === rows[index - 1].lane ? 1 : gap);
      row.y = y;
    });
    const total = HEAD + y + size + 8;
    height = Math.min(box.clientHeight, total);
    box.style.height = `${height + 2}px`;
    document.getElementById("lanes-size").style.height = `${total - height}px`;
    width = box.clientWidth;
    outer = box.offsetWidth;
    const scale = devicePixelRatio;
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    canvas.style.height = `${height}px`;
  }

  // Where the panels have it too, whatever the border and the scroll bar take.
  const LEFT = MARGIN.l - 1;
  const span = () => outer - MARGIN.l - MARGIN.r;
  function toX(at) {
    const [low, high] = timeAxis.range();
    return LEFT + ((at - low) / (high - low)) * span();
  }
  function toTime(x) {
    const [low, high] = timeAxis.range();
    return low + ((x - LEFT) / span()) * (high - low);
  }

  function firstAfter(row, at) {
    let [low, high] = [row.from, row.to];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (closed[middle] < at) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  // ---- drawing

  function inks() {
    const names = ["series-0", "series-1", "bad", "strong-line", "muted", "ink", "grid", "accent", "surface", "line"];
    return Object.fromEntries(names.map((name) => [name, colour(`--${name}`)]));
  }

  function bar(pen, ink, index, y) {
    const failed = all.failed[all.status[index]];
    const whole = all.statuses[all.status[index]] === "ok";
    const x0 = Math.max(toX(opened[index]), MARGIN.l - 2);
    const x1 = Math.min(Math.max(toX(closed[index]), x0 + (failed ? 3 : 1)), width);
    const token = all.first[index] < 0 ? x1 : Math.min(Math.max(toX(opened[index] + all.first[index] * TICK), x0), x1);
    pen.fillStyle = failed ? ink.bad : whole ? ink[all.sub[index] ? "series-1" : "series-0"] : ink["strong-line"];
    pen.globalAlpha = 0.38;
    pen.fillRect(x0, y, token - x0, size);
    pen.globalAlpha = 1;
    // Even a bar with one token has a dark end, so that it is not taken for one without.
    if (all.first[index] >= 0) pen.fillRect(Math.min(token, x1 - 1), y, Math.max(x1 - token, 1), size);
    if (failed) cross(pen, ink, x1, y);
    if (index === marked) {
      pen.strokeStyle = ink.ink;
      pen.lineWidth = 2;
      pen.strokeRect(x0 - 1, y - 1, x1 - x0 + 2, size + 2);
    }
  }

  function cross(pen, ink, x, y) {
    const half = Math.min(Math.max(size / 2, 3), 5);
    const middle = y + size / 2;
    pen.strokeStyle = ink.bad;
    pen.lineWidth = 1.6;
    pen.beginPath();
    pen.moveTo(x - half, middle - half);
    pen.lineTo(x + half, middle + half);
    pen.moveTo(x - half, middle + half);
    pen.lineTo(x + half, middle - half);
    pen.stroke();
  }

  function ticks() {
    const [low, high] = timeAxis.range();
    const rough = (high - low) / Math.max(span() / 90, 1);
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= rough);
    const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
    const found = [];
    for (let n = Math.ceil(low / step); n * step <= high; n += 1) found.push([n * step, (n * step).toFixed(digits)]);
    return found;
  }

  function ground(pen, ink) {
    pen.fillStyle = ink.surface;
    pen.fillRect(0, 0, width, height);
    pen.fillStyle = ink.accent;
    pen.globalAlpha = 0.08;
    const [from, to] = [0, data.window].map((at) => Math.min(Math.max(toX(at), LEFT), LEFT + span()));
    pen.fillRect(from, HEAD, to - from, height);
    pen.globalAlpha = 1;
    pen.fillStyle = ink.grid;
    for (const [at] of ticks()) pen.fillRect(Math.round(toX(at)), HEAD, 1, height);
    pen.fillStyle = ink.accent;
    for (const at of [0, data.window]) pen.fillRect(Math.round(toX(at)), HEAD, 1, height);
  }

  function head(pen, ink) {
    pen.fillStyle = ink.surface;
    pen.fillRect(0, 0, width, HEAD);
    pen.fillStyle = ink.line;
    pen.fillRect(0, HEAD - 1, width, 1);
    pen.fillStyle = ink.muted;
    pen.textAlign = "center";
    for (const [at, text] of ticks()) {
      const x = toX(at);
      if (x > MARGIN.l + 12 && x < width - 20) pen.fillText(`${text} s`, x, HEAD / 2);
    }
  }

  function labels(pen, ink, inSight) {
    pen.fillStyle = ink.surface;
    pen.fillRect(0, HEAD, MARGIN.l, height);
    pen.fillStyle = ink.muted;
    pen.textAlign = "right";
    let free = -Infinity;
    for (const { row, y } of inSight) {
      if (row.track > 0 && row.y > 4 && rows.some((one) => one.lane === row.lane && one.track < row.track)) continue;
      if (y < free) continue;
      pen.fillText(`lane ${row.lane}`, MARGIN.l - 8, y + size / 2 + 0.5);
      free = y + 13;
    }
  }

  function draw() {
    const pen = canvas.getContext("2d");
    const ink = inks();
    pen.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
    pen.font = `11.5px ${getComputedStyle(document.body).fontFamily}`;
    pen.textBaseline = "middle";
    ground(pen, ink);
    const [low, high] = timeAxis.range();
    const down = HEAD - box.scrollTop;
    const inSight = rows.map((row) => ({ row, y: row.y + down })).filter(({ y }) => y > HEAD - size && y < height);
    let drawn = 0;
    pen.save();
    pen.beginPath();
    pen.rect(LEFT - 6, 0, span() + 6, height);
    pen.clip();
    for (const { row, y } of inSight) {
      for (let index = firstAfter(row, low); index < row.to && opened[index] <= high; index += 1) {
        bar(pen, ink, index, y);
        drawn += 1;
      }
    }
    pen.restore();
    labels(pen, ink, inSight);
    head(pen, ink);
    if (drag?.band) {
      pen.fillStyle = ink.accent;
      pen.globalAlpha = 0.2;
      pen.fillRect(Math.min(drag.x, drag.to), HEAD, Math.abs(drag.to - drag.x), height);
      pen.globalAlpha = 1;
    }
    canvas.dataset.drawn = String(drawn);
  }

  let waiting = 0;
  function soon() {
    cancelAnimationFrame(waiting);
    waiting = requestAnimationFrame(draw);
  }

  // ---- the card of a request

  function at(event) {
    const area = canvas.getBoundingClientRect();
    return [event.clientX - area.left, event.clientY - area.top];
  }

  function found(x, y) {
    if (y < HEAD || x < MARGIN.l) return -1;
    const row = rows.find((one) => Math.abs(one.y + size / 2 + HEAD - box.scrollTop - y) <= size / 2 + 1);
    if (!row) return -1;
    const reach = toTime(x + 3) - toTime(x);
    const here = toTime(x);
    let best = -1;
    for (let index = firstAfter(row, here - reach); index < row.to && opened[index] <= here + reach; index += 1) {
      best = index;
      if (closed[index] >= here) break;
    }
    return best;
  }

  const number = (value) => (value < 0 ? "–" : value.toLocaleString("en"));
  const seconds = (tenths) => (tenths < 0 ? "–" : `${(tenths * TICK).toFixed(4)} s`);

  function words(index) {
    const status = all.statuses[all.status[index]];
    const asked = all.input[index] < 0 ? `${number(all.intended[index])} meant` : number(all.input[index]);
    const facts = [
      ["Session", all.sessions[all.session[index]]],
      ["Agent", `${all.agents[all.agent[index]]}, turn ${all.turn[index]}`],
      ["Status", all.warmup[index] ? `${status}, warm-up` : status],
      ["Sent", `${opened[index].toFixed(3)} s${all.sent[index] ? "" : " (never left)"}`],
      ["TTFT", all.sent[index] ? seconds(all.first[index]) : "–"],
      ["Open for", seconds(all.last[index])],
      ["Input tokens", `${asked}, cached ${number(all.cached[index])}`],
      ["Output tokens", number(all.output[index])],
    ];
    if (all.error[index] >= 0) facts.push(["Error", all.errors[all.error[index]]]);
    return facts;
  }

  function element(tag, ...children) {
    const made = document.createElement(tag);
    made.append(...children);
    return made;
  }

  function show(index, event) {
    card.hidden = index < 0;
    if (index < 0) return;
    const list = element("dl", ...words(index).flatMap(([name, value]) => [element("dt", name), element("dd", value)]));
    card.replaceChildren(element("h3", all.prefix + all.id[index]), list);
    const left = Math.min(event.pageX + 14, scrollX + document.documentElement.clientWidth - card.offsetWidth - 8);
    const below = event.clientY + card.offsetHeight + 24 < innerHeight;
    card.style.left = `${Math.max(left, scrollX + 8)}px`;
    card.style.top = `${below ? event.pageY + 16 : event.pageY - card.offsetHeight - 12}px`;
  }

  // ---- hand and keys

  function down(event) {
    if (event.button !== 0 || at(event)[0] < MARGIN.l) return;
    const [x] = at(event);
    canvas.setPointerCapture(event.pointerId);
    drag = { x, to: x, range: timeAxis.range(), pan: event.shiftKey || event.pointerType === "touch", band: false };
  }

  function moved(event) {
    const [x, y] = at(event);
    if (!drag) return show(found(x, y), event);
    drag.to = x;
    if (drag.pan) {
      const by = ((drag.x - x) / span()) * (drag.range[1] - drag.range[0]);
      timeAxis.set(drag.range[0] + by, drag.range[1] + by);
    } else {
      drag.band = Math.abs(drag.to - drag.x) > 4;
      soon();
    }
    return undefined;
  }

  function up(event) {
    const was = drag;
    drag = null;
    if (was?.band) timeAxis.set(...[was.x, was.to].map(toTime).sort((a, b) => a - b));
    else if (was && Math.abs(was.to - was.x) < 4) show(found(...at(event)), event);
    soon();
  }

  function wheel(event) {
    const sideways = event.deltaX || (event.shiftKey ? event.deltaY : 0);
    if (event.ctrlKey || event.metaKey) timeAxis.zoom(Math.exp(event.deltaY * 0.002), toTime(at(event)[0]));
    else if (sideways) timeAxis.move(sideways / span());
    else return;
    event.preventDefault();
  }

  function mark(index) {
    marked = index;
    const row = rows.find(({ from, to }) => index >= from && index < to);
    box.scrollTop = row.y - box.clientHeight / 2;
    const around = Math.max((closed[index] - opened[index]) * 2, 0.05);
    timeAxis.set(opened[index] - around, closed[index] + around);
    box.scrollIntoView({ block: "nearest" });
    box.focus({ preventScroll: true });
  }

  canvas.addEventListener("pointerdown", down);
  canvas.addEventListener("pointermove", moved);
  canvas.addEventListener("pointerup", up);
  canvas.addEventListener("pointercancel", () => { drag = null; soon(); });
  canvas.addEventListener("pointerleave", () => { card.hidden = true; });
  canvas.addEventListener("dblclick", acts.whole);
  canvas.addEventListener("wheel", wheel, { passive: false });
  box.addEventListener("scroll", () => { card.hidden = true; soon(); });
  box.addEventListener("keydown", (event) => {
    const act = event.ctrlKey || event.metaKey ? undefined : KEYS[event.key];
    if (act) {
      act();
      event.preventDefault();
    }
  });
  document.addEventListener("keydown", ({ key }) => { if (key === "Escape") card.hidden = true; });
  document.querySelector("#requests").addEventListener("click", ({ target }) => {
    const button = target.closest("[data-bar]");
    if (button) mark(Number(button.dataset.bar));
  });
  timeAxis.onChange(soon);
  addEventListener("resize", () => { place(); soon(); });
  addEventListener("beforeprint", draw);
  addEventListener("afterprint", draw);
  place();
  timeAxis.start();
})();
