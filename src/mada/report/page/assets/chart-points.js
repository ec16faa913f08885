/* Accuracy against a system's cost: trained parameters with the Pareto front, or tokens with what plain votes reach. */

(() => {
  "use strict";
  const {
    NOTHING, number, counted, uncertain, accuracyText, magnitude, percentTick, named, distinct, linear, ticks,
    shareDomain,
  } = ChartCanvas;
  const { seriesClass, dashClass, shapeOf, shapePath, line, axes, box, boxesAlong, placeLabels } = ChartCanvas;

  // More systems than this in one run would make a legend that nobody reads: they are sorted into three kinds instead.
  const MOST_KEYS = 12;
  const KINDS = ["the reference", "on the Pareto front", "other systems"];
  const kindOf = (point) => (point.is_reference ? 0 : point.is_on_front ? 1 : 2);

  const curvesOf = (data) => data.curves ?? [];
  const runsOf = (data) => distinct([...data.points, ...curvesOf(data)].map((entry) => entry.run));
  const seedsLine = (error) => (error === null ? ["one seed: no standard error"] : []);

  /** How a system's point looks and which key hides it: by run where there are several, else by system or kind. */
  function pointSeries(data, index) {
    const runs = runsOf(data);
    const point = data.points[index];
    const [by, series, label] = runs.length > 1 ? ["run", runs.indexOf(point.run), point.run]
      : data.points.length <= MOST_KEYS ? ["system", index, point.title]
        : ["kind", kindOf(point), KINDS[kindOf(point)]];
    return { by, key: `${by} ${series}`, series, label, shape: point.is_reference ? "star" : shapeOf(series) };
  }

  /** A vote curve takes the colour of its run or of a system of its name; dashes and shapes tell curves apart. */
  function curveSeries(data, index) {
    const runs = runsOf(data);
    const curve = curvesOf(data)[index];
    const own = data.points.findIndex((point) => point.title === curve.title && point.run === curve.run);
    const series = runs.length > 1 ? runs.indexOf(curve.run) : own >= 0 ? pointSeries(data, own).series : null;
    const keys = [`curve ${index}`, ...(runs.length > 1 ? [`run ${series}`] : [])];
    return {
      keys,
      colour: series === null ? "chart-neutral" : seriesClass(series),
      dash: index + 1,
      shape: shapeOf(series ?? index),
    };
  }

  function legend(data) {
    const runs = runsOf(data);
    const systems = new Map();
    data.points.forEach((_, index) => {
      const { by, key, series, label, shape } = pointSeries(data, index);
      if (!systems.has(key)) systems.set(key, { key, label, series, shape: by === "run" ? shapeOf(series) : shape });
    });
    const lines = curvesOf(data).map((curve, index) => {
      const { keys, colour, dash, shape } = curveSeries(data, index);
      return { key: keys[0], label: named(runs.length > 1 ? curve.run : "", curve.title), series: colour, dash, shape };
    });
    const hasFront = data.name === "parameters" && data.points.some((point) => point.is_on_front);
    const front = hasFront ? [{ key: "front", label: "Pareto front", series: "chart-neutral", dash: 0 }] : [];
    return [
      { label: runs.length > 1 ? "Runs" : "Systems", items: [...systems.values()].sort((a, b) => a.series - b.series) },
      { label: lines.length ? "Votes of k samples" : "", items: [...lines, ...front] },
    ];
  }

  const spread = ({ accuracy, error }) => [accuracy - (error ?? 0), accuracy + (error ?? 0)];
  const notes = (data, point) => [
    ...(point.is_reference ? ["the reference"] : []),
    ...(data.name === "parameters" && point.is_on_front ? ["on the Pareto front"] : []),
  ];

  function paintFront(canvas, points, { x, y }) {
    const front = points.filter((point) => point.is_on_front).sort((a, b) => a.x - b.x || a.accuracy - b.accuracy);
    const places = front.map((point) => [x(point.x), y(point.accuracy)]);
    canvas.add("path", { class: "chart-line chart-front chart-neutral", d: line(places) });
    return { obstacles: boxesAlong(places), labels: [] };
  }

  function paintCurve(canvas, data, index, { x, y, cost }) {
    const curve = data.curves[index];
    const { keys, colour, dash, shape } = curveSeries(data, index);
    if (!canvas.shows(...keys)) return { obstacles: [], labels: [] };
    const places = curve.points.map((point) => [x(point.tokens), y(point.accuracy)]);
    canvas.add("path", { class: `chart-line ${colour} ${dashClass(dash)}`, d: line(places) });
    curve.points.forEach((point, step) => {
      const [px, py] = places[step];
      canvas.add("path", { class: `chart-point ${colour}`, d: shapePath(shape, px, py, 3.5) });
      canvas.mark({
        group: keys[0], x: px, y: py, title: `${named(curve.run, curve.title)}, k = ${point.k}`,
        lines: [
          `accuracy ${accuracyText(point.accuracy, point.error)}`, cost.count(point.tokens), ...seedsLine(point.error),
        ],
      });
    });
    const marks = places.map(([px, py]) => box(px - 4, py - 4, 8, 8));
    const labels = places.slice(-1).map(([px, py]) =>
      ({ x: px, y: py, radius: 3, content: `k = ${curve.points.at(-1).k}`, kind: "chart-faint", rank: 9 }));
    return { obstacles: [...boxesAlong(places), ...marks], labels };
  }

  function paintPoint(canvas, data, index, { x, y, cost }) {
    const point = data.points[index];
    const { key, series, shape } = pointSeries(data, index);
    if (!canvas.shows(key)) return { obstacles: [], labels: [] };
    const [px, py] = [x(point.x), y(point.accuracy)];
    const obstacles = [box(px - 7, py - 7, 14, 14)];
    if (point.error !== null) {
      const [low, high] = spread(point).map(y);
      const path = `M${px},${low}V${high}M${px - 4},${low}h8M${px - 4},${high}h8`;
      canvas.add("path", { class: `chart-error ${seriesClass(series)}`, d: path });
      obstacles.push(box(px - 3, high, 6, low - high));
    }
    canvas.add("path", { class: `chart-point ${seriesClass(series)}`, d: shapePath(shape, px, py, 5.5) });
    canvas.mark({
      group: key, x: px, y: py, title: named(point.run, point.title),
      lines: [
        `accuracy ${accuracyText(point.accuracy, point.error)}`, cost.count(point.x),
        ...notes(data, point), ...seedsLine(point.error),
      ],
    });
    const kind = point.is_reference ? "chart-text chart-strong" : "chart-text";
    return { obstacles, labels: [{ x: px, y: py, radius: 7, content: point.title, kind, rank: kindOf(point) }] };
  }

  function paint(canvas, data, cost) {
    const all = [...data.points, ...curvesOf(data).flatMap((curve) => curve.points)];
    const height = canvas.isNarrow ? 340 : 420;
    const plot = { left: 40, right: canvas.width - 12, top: 30, bottom: height - 42 };
    const yDomain = shareDomain(all.flatMap(spread));
    const xDomain = [0, all.reduce((most, entry) => Math.max(most, entry.x ?? entry.tokens), 0) * 1.06 || 1];
    // Untrained systems stand at zero: the scale starts inside the plot, so that they do not sit on its edge.
    const x = linear(xDomain, [plot.left + 14, plot.right]);
    const y = linear(yDomain, [plot.bottom, plot.top]);
    const xTicks = ticks(xDomain, (plot.right - plot.left) / 85, { whole: true });
    axes(canvas, plot, {
      x: { scale: x, ticks: xTicks, text: magnitude, label: cost.axis },
      y: { scale: y, ticks: ticks(yDomain, 6), text: percentTick, label: "accuracy, %" },
    });
    // Keys walk from the cheapest system to the dearest.
    const order = data.points.map((_, index) => index).sort((a, b) => data.points[a].x - data.points[b].x || a - b);
    const hasFront = data.name === "parameters" && canvas.shows("front");
    const painted = [
      ...(hasFront ? [paintFront(canvas, data.points, { x, y })] : []),
      ...curvesOf(data).map((_, index) => paintCurve(canvas, data, index, { x, y, cost })),
      ...order.map((index) => paintPoint(canvas, data, index, { x, y, cost })),
    ];
    const labels = painted.flatMap((part) => part.labels).sort((a, b) => a.rank - b.rank);
    placeLabels(canvas, plot, labels, painted.flatMap((part) => part.obstacles));
    return { height };
  }

  function summary(data, cost) {
    const sorted = [...data.points].sort((a, b) => a.accuracy - b.accuracy);
    const told = (point) => `${accuracyText(point.accuracy, point.error)} (${named(point.run, point.title)})`;
    const references = data.points.filter((point) => point.is_reference);
    const votes = curvesOf(data).length ? `, with ${counted(curvesOf(data).length, "curve")} of plain votes` : "";
    if (sorted.length === 0) return `Accuracy against ${cost.axis}${votes}.`;
    const range = sorted.length === 1 ? told(sorted[0]) : `from ${told(sorted[0])} to ${told(sorted.at(-1))}`;
    const [first] = references;
    const reference = references.length === 1
      ? `; the reference, ${first.title}, has ${accuracyText(first.accuracy, first.error)}` : "";
    return `Accuracy of ${counted(data.points.length, "system")} against ${cost.axis}${votes}: ${range}${reference}.`;
  }

  function note(data) {
    const sentences = [
      ...(data.points.some((point) => point.error !== null) ? ["Bars: ± one standard error over seeds."] : []),
      ...(data.points.some((point) => point.is_reference) ? ["Star: the reference."] : []),
      ...(curvesOf(data).length ? ["Lines: majority votes of k samples, k = 1, 2, …"] : []),
    ];
    return sentences.join(" ");
  }

  function tables(data, cost) {
    const withRun = runsOf(data).some((run) => run !== "");
    const run = (entry) => (withRun ? [entry.run] : []);
    const told = (point) => notes(data, point).join(", ") || NOTHING;
    const systems = {
      caption: data.title,
      head: ["system", ...(withRun ? ["run"] : []), cost.axis, "accuracy, %", "note"],
      rows: data.points.map((point) =>
        [point.title, ...run(point), cost.exact(point.x), uncertain(point.accuracy, point.error), told(point)]),
    };
    if (!curvesOf(data).length) return [systems];
    const votes = {
      caption: "Majority votes of k samples",
      head: ["samples of", ...(withRun ? ["run"] : []), "k", cost.axis, "accuracy, %"],
      rows: curvesOf(data).flatMap((curve) => curve.points.map((point) => [
        curve.title, ...run(curve), number(point.k), cost.exact(point.tokens), uncertain(point.accuracy, point.error),
      ])),
    };
    return [systems, votes];
  }

  function registerPoints(name, cost) {
    Charts.register(name, {
      isEmpty: (data) => data.points.length === 0 && curvesOf(data).every((curve) => curve.points.length === 0),
      summary: (data) => summary(data, cost),
      legend,
      note,
      tables: (data) => tables(data, cost),
      paint: (canvas, data) => paint(canvas, data, cost),
    });
  }
  const tokenNumber = (tokens) => (tokens < 10 && !Number.isInteger(tokens) ? number(tokens, 1) : number(tokens));
  registerPoints("parameters", {
    axis: "trained parameters",
    exact: (parameters) => number(parameters),
    count: (parameters) => counted(parameters, "trained parameter"),
  });
  registerPoints("tokens", {
    axis: "generated tokens per question",
    exact: tokenNumber,
    count: (tokens) => `${tokenNumber(tokens)} tokens per question`,
  });
})();
