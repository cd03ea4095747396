// Draws the figures of the page: FIGURES holds, by name, what curves.py and charts.py call a payload.
// The page's policy allows neither evaluated code nor inline styles: text stays text, whatever is in it.
"use strict";

const FIGURES = JSON.parse(document.getElementById("figures").textContent);

const SVG = "http://www.w3.org/2000/svg";
const NARROW = matchMedia("(max-width: 600px)").matches;
const MOST_SAID = 8;  // curves nearest to the pointer whose values are shown

function make(tag, facts = {}, ...children) {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(facts))
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value);
  element.append(...children);
  return element;
}

function save(name, text) {
  const url = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  make("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

// As csv_table.py: an apostrophe keeps a spreadsheet from computing text that begins as a formula does.
function toCsv(rows) {
  const plain = value => /^[=+\-@]/.test(value) && isNaN(value) ? `'${value}` : value ?? "";
  const quoted = value => /[",\r\n]/.test(value) ? `"${String(value).replaceAll('"', '""')}"` : value;
  const cell = value => quoted(plain(value));
  return rows.map(row => row.map(cell).join(",") + "\n").join("");
}

const five = number => Number(number.toPrecision(5));

// --- figures of curves -------------------------------------------------------------------------------------

class CurveFigure {
  constructor(root, name, figure) {
    Object.assign(this, { root, name, figure, x: figure.x, views: [] });
    this.shown = { name: new Set(figure.names.keys()), variant: new Set(figure.variants.keys()) };
    this.plots = make("div", { class: figure.split ? "plots split" : "plots" });
    this.note = make("span", { class: "note" });
    this.tip = make("div", { class: "tip" });
    root.append(this.tools(), ...this.legends(), this.plots, this.tip);
  }

  tools() {
    const zoom = (sign, label, factor) =>
      make("button", { type: "button", title: label, "aria-label": label, onclick: () => this.zoom(factor) }, sign);
    const ways = [zoom("+", "zoom in", 0.6), zoom("−", "zoom out", 1 / 0.6), zoom("reset", "show everything", null)];
    const csv = make("button", { type: "button", class: "csv", onclick: () => save(`${this.name}.csv`, this.csv()) }, "CSV");
    const tools = make("div", { class: "tools" }, make("span", { class: "switch" }, ...ways));
    if (this.figure.curves.some(curve => curve.symbols)) tools.prepend(this.axisSwitch());
    tools.append(this.note, make("span", { class: "push" }), csv, ...KINDS.map(kind => link(this.name, kind)));
    return tools;
  }

  axisSwitch() {
    const choose = x => { this.x = x; press(); this.draw(); };
    const button = (x, text) => make("button", { type: "button", "data-x": x, onclick: () => choose(x) }, text);
    const words = { round: "rounds", symbols: "symbols", air_seconds: "seconds", joules: "joules" };
    const buttons = Object.keys(this.figure.axes).map(x => button(x, words[x]));
    const press = () => buttons.forEach(b => b.setAttribute("aria-pressed", b.dataset.x === this.x));
    press();
    return make("span", { class: "switch axis", role: "group", "aria-label": "x axis" }, ...buttons);
  }

  legends() {
    const { names, variants, split, colours, dashes } = this.figure;
    const found = [this.legend("name", names, place => [colours[place], dashes[names[place]], this.weight(place)])];
    if (variants.length > 1 && !split)
      found.push(this.legend("variant", variants, place => ["currentColor", dashes[variants[place]], 2.5]));
    return found;
  }

  legend(kind, labels, look) {
    const buttons = labels.map((label, place) => make("button", {
      type: "button", title: "click: hide or show; double click: only this one",
      onclick: () => this.toggle(kind, place), ondblclick: () => this.only(kind, place),
    }, key(look(place)), label));
    this[`${kind}Buttons`] = buttons;
    this.press(kind);
    return make("div", { class: `legend ${kind}`, role: "group" }, ...buttons);
  }

  // How thick a curve is drawn: those that the figure is about more, the others less.
  weight(place) {
    const { subjects, names } = this.figure;
    return !subjects.length ? 2.5 : subjects.includes(names[place]) ? 3.2 : 1.6;
  }

  press(kind) {
    this[`${kind}Buttons`]?.forEach((b, place) => b.setAttribute("aria-pressed", this.shown[kind].has(place)));
  }

  toggle(kind, place) {
    const shown = this.shown[kind];
    if (!shown.delete(place)) shown.add(place);
    if (!shown.size) this[`${kind}Buttons`].forEach((_, each) => shown.add(each));
    this.refresh(kind);
  }

  only(kind, place) {
    this.shown[kind] = new Set([place]);
    this.refresh(kind);
  }

  refresh(kind) {
    this.press(kind);
    for (const { view, variant } of this.views) view.data("rows", this.rows(variant)).runAsync();
  }

  visible(variant) {
    return this.figure.curves.filter(curve => this.shown.name.has(curve.name) && curve[this.x] &&
      (variant === null ? this.shown.variant.has(curve.variant) : curve.variant === variant));
  }

  rows(variant) {
    const { names, variants, logY } = this.figure;
    return this.visible(variant).flatMap(curve => curve.mean.map((mean, place) => {
      const half = curve.half ? curve.half[place] : 0, [low, high] = this.possible([mean - half, mean + half]);
      return { curve: names[curve.name], variant: variants[curve.variant], x: curve[this.x][place],
        mean, low: logY ? Math.max(low, 0.1 * mean) : low, high };
    }));
  }

  // No share is below 0 or above 1, whatever an interval or a zoom says.
  possible([low, high]) {
    return this.figure.percent ? [Math.max(low, 0), Math.min(high, 1)] : [low, high];
  }

  // Neither a drag nor the wheel leaves what there is of x, and no share leaves 0 to 1.
  bounded(compiled) {
    const bounds = { zoom_x: extent(this.figure.curves.flatMap(curve => curve[this.x] ?? [])),
      zoom_mean: this.figure.percent ? [0, 1] : [0, 0] };
    for (const { name, on = [] } of compiled.signals ?? []) {
      const [low, high] = bounds[name] ?? [0, 0];
      for (const step of on)
        if (low < high && /^(pan|zoom)/.test(step.update)) step.update = `clampRange(${step.update}, ${low}, ${high})`;
    }
    return compiled;
  }

  csv() {
    const { names, variants } = this.figure;
    const x = this.figure.axes.round.title.split(" ").at(-1);
    const head = ["curve", "variant", x, "symbols", "mean", "low", "high", "seeds"];
    return toCsv([head, ...this.figure.curves.flatMap(curve => curve.mean.map((mean, place) => {
      const half = curve.half ? curve.half[place] : 0;
      return [names[curve.name], variants[curve.variant], curve.round[place], curve.symbols?.[place],
        mean, ...(curve.half ? this.possible([mean - half, mean + half]).map(five) : ["", ""]), curve.seeds];
    }))]);
  }

  spec() {
    const spec = structuredClone(this.figure.spec), x = this.figure.axes[this.x];
    if (NARROW && !this.figure.split) spec.height = 240;
    const shared = this.figure.split ? { domain: this.range(), nice: true } : {};
    for (const { encoding } of spec.layer) {
      Object.assign(encoding.x, { title: x.title, scale: x.scale });
      encoding.x.axis.format = x.format;
      Object.assign(encoding.y.scale, shared);
    }
    return spec;
  }

  // From the lowest to the highest end of all bands.
  range() {
    return this.possible(extent(this.figure.curves.flatMap(({ mean, half }) =>
      mean.flatMap((value, place) => [value - (half?.[place] ?? 0), value + (half?.[place] ?? 0)]))));
  }

  async draw() {
    this.views.forEach(({ view }) => view.finalize());
    this.views = [];
    this.plots.replaceChildren();
    const silent = [...new Set(this.figure.curves.filter(curve => !curve[this.x]).map(c => this.figure.names[c.name]))];
    this.note.textContent = silent.length ? `uses no channel: ${silent.join(", ")}` : "";
    const places = this.figure.split ? [...this.figure.variants.keys()] : [null];
    await Promise.all(places.map(variant => this.plot(variant)));
  }

  async plot(variant) {
    const chart = make("div", { class: "chart" }), cursor = make("div", { class: "cursor" });
    const title = variant === null ? [] : [make("h4", {}, this.figure.variants[variant])];
    const plot = make("div", { class: "plot" }, ...title, make("div", { class: "inner" }, chart, cursor));
    this.plots.append(plot);
    const spec = { ...this.spec(), datasets: { rows: this.rows(variant) } };
    const { view } = await embed(chart, spec, compiled => this.bounded(compiled));
    const entry = { view, variant, chart, cursor };
    this.views.push(entry);
    chart.addEventListener("pointermove", event => this.hover(event, entry));
    chart.addEventListener("pointerleave", () => this.leave(entry));
  }

  // Towards the last round, where curves are compared; y follows what is then seen, alike in all plots.
  // Vega-Lite names its signals after the fields.
  zoom(factor) {
    const rows = this.views.map(({ variant }) => this.rows(variant));
    const domains = this.views.map(({ view }, place) => {
      const moved = factor === null ? null : nearer(view.scale("x"), factor);
      return moved && rows[place].some(({ x }) => x < moved[0]) ? moved : null;
    });
    const seen = rows.flatMap((each, place) => domains[place] ? each.filter(({ x }) => x >= domains[place][0]) : []);
    const [low, high] = extent(seen.flatMap(row => [row.low, row.high]));
    const space = this.figure.logY ? 0 : (high - low) / 25;
    this.views.forEach(({ view }, place) => {
      view.signal("zoom_x", domains[place]).signal("zoom_mean", domains[place] && this.possible([low - space, high + space]));
      view.runAsync();
    });
  }

  hover(event, { view, variant, chart, cursor }) {
    const box = chart.getBoundingClientRect(), pad = view.padding(), [left, top] = view.origin();
    const px = event.clientX - box.left - pad.left - left, py = event.clientY - box.top - pad.top - top;
    if (px < 0 || px > view.width() || py < 0 || py > view.height()) return this.leave({ cursor });
    const x = view.scale("x").invert(px), y = view.scale("y");
    const away = point => Math.abs(y(point.mean) - py);
    const found = this.visible(variant).map(curve => at(curve, this.x, x)).filter(point => point)
      .sort((a, b) => away(a) - away(b)).slice(0, MOST_SAID);
    if (!found.length) return this.leave({ cursor });
    const [near] = found;
    const line = pad.left + left + view.scale("x")(near.x);
    Object.assign(cursor.style, { display: "block", left: `${line}px`, top: `${pad.top + top}px`, height: `${view.height()}px` });
    this.say(found.sort((a, b) => b.mean - a.mean), near, variant);
    this.place(event);
  }

  say(found, near, variant) {
    const { names, variants, axes, percent } = this.figure;
    const text = value => percent ? `${(100 * value).toFixed(2)} %` : value.toPrecision(4);
    const half = point => point.half === undefined ? "" : `± ${percent ? (100 * point.half).toFixed(2) : point.half.toPrecision(2)}`;
    const label = ({ curve }) => [names[curve.name], variant === null ? variants[curve.variant] : ""].filter(Boolean).join(", ");
    const rows = found.map(point => make("tr", point === near ? { class: "near" } : {},
      make("td", {}, this.keyOf(point.curve), " ", label(point)), make("td", {}, text(point.mean)), make("td", {}, half(point))));
    this.tip.replaceChildren(`${axes[this.x].title} ${near.x.toLocaleString("en")}`, make("table", {}, ...rows));
  }

  keyOf(curve) {
    const { names, variants, colours, dashes } = this.figure;
    return key([colours[curve.name], dashes[variants[curve.variant]] ?? dashes[names[curve.name]], this.weight(curve.name)], 22);
  }

  place(event) {
    const box = this.root.getBoundingClientRect(), x = event.clientX - box.left;
    this.tip.style.display = "block";
    const width = this.tip.offsetWidth, left = x > box.width / 2 ? x - width - 16 : x + 16;
    this.tip.style.left = `${Math.max(0, Math.min(left, box.width - width))}px`;
    this.tip.style.top = `${Math.max(0, event.clientY - box.top - this.tip.offsetHeight - 12)}px`;
  }

  leave({ cursor }) {
    cursor.style.display = this.tip.style.display = "none";
  }
}

function extent(values) {
  return values.reduce(([low, high], value) => [Math.min(low, value), Math.max(high, value)], [Infinity, -Infinity]);
}

// The domain of a scale with its start moved towards its end, as it is seen.
function nearer(scale, factor) {
  const [start, end] = scale.domain(), place = scale(end);
  return [scale.invert(place + (scale(start) - place) * factor), end];
}

// The point of a curve that is nearest to x, if x is within its range.
function at(curve, axis, x) {
  const xs = curve[axis], last = xs.length - 1, slack = (xs[last] - xs[0]) / (last || 1);
  if (x < xs[0] - slack || x > xs[last] + slack) return null;
  let low = 0, high = last;
  while (high - low > 1) { const middle = (low + high) >> 1; if (xs[middle] <= x) low = middle; else high = middle; }
  const place = x - xs[low] < xs[high] - x ? low : high;
  return { curve, x: xs[place], mean: curve.mean[place], half: curve.half?.[place] };
}

function key([colour, dash, weight], width = 34) {
  const svg = document.createElementNS(SVG, "svg"), line = document.createElementNS(SVG, "line");
  const facts = { x1: 1, x2: width - 1, y1: 6, y2: 6, stroke: colour, "stroke-width": weight,
    "stroke-dasharray": dash && dash[1] ? dash.join(" ") : "none" };
  for (const [name, value] of Object.entries(facts)) line.setAttribute(name, value);
  for (const [name, value] of Object.entries({ width, height: 12, "aria-hidden": true })) svg.setAttribute(name, value);
  svg.append(line);
  return svg;
}

const KINDS = ["png", "svg", "pdf"];
const link = (name, kind) => make("a", { href: `figures/${name}.${kind}` }, kind.toUpperCase());

// --- figures of any other kind -----------------------------------------------------------------------------

function anyFigure(root, name, { spec }) {
  const rows = values(spec), keys = rows.length ? Object.keys(rows[0]) : [];
  const csv = make("button", { type: "button", class: "csv",
    onclick: () => save(`${name}.csv`, toCsv([keys, ...rows.map(row => keys.map(each => row[each]))])) }, "CSV");
  const tools = make("div", { class: "tools" }, make("span", { class: "push" }),
    ...(rows.length ? [csv] : []), ...KINDS.map(kind => link(name, kind)));
  const chart = make("div", { class: "chart own" });
  root.append(tools, make("div", { class: "wide" }, chart));
  return embed(chart, spec, undefined, NARROW ? { legend: { orient: "bottom" } } : {});
}

// The longest list of rows anywhere in a description.
function values(part) {
  if (part === null || typeof part !== "object") return [];
  if (Array.isArray(part) && part.length && Object.values(part[0] ?? {}).some(each => typeof each === "number")) return part;
  return Object.values(part).map(values).reduce((a, b) => b.length > a.length ? b : a, []);
}

// Colours of text and axes come from the style sheet, which knows about darkness and paper.
function embed(chart, spec, patch = compiled => compiled, more = {}) {
  const config = { background: "transparent", view: { stroke: "transparent" }, font: "system-ui, sans-serif", ...more };
  const tooltip = { disableDefaultStyle: true };
  return vegaEmbed(chart, spec, { config, actions: false, renderer: "svg", tooltip, defaultStyle: false, ast: true, patch });
}

async function drawAll() {
  for (const [name, figure] of Object.entries(FIGURES)) {
    const root = document.getElementById(`figure-${name}`);
    if (figure.curves) await new CurveFigure(root, name, figure).draw();
    else await anyFigure(root, name, figure);
  }
  document.body.dataset.drawn = "yes";
}
drawAll();
