/* What critics' completions were credited with: histograms over the same edges, one over the other, with means. */

(() => {
  "use strict";
  const { number, counted, percent, signed, tickText, named, linear, ticks } = ChartCanvas;
  const { seriesClass, dashClass, axes } = ChartCanvas;

  const key = (index) => `series ${index}`;
  const total = (series) => series.counts.reduce((sum, count) => sum + count, 0);

  /** A bin as words, with digits enough to tell its edges apart however narrow it is. */
  function binText({ edges }, bin, words) {
    const digits = Math.min(8, Math.max(2, Math.ceil(-Math.log10(edges[bin + 1] - edges[bin])) + 1));
    return `${signed(edges[bin], digits)} ${words} ${signed(edges[bin + 1], digits)}`;
  }

  function steps(edges, counts, x, y) {
    const tops = counts.map((count, bin) => `V${y(count).toFixed(1)}H${x(edges[bin + 1]).toFixed(1)}`);
    return `M${x(edges[0]).toFixed(1)},${y(0)}${tops.join("")}V${y(0)}`;
  }

  function paint(canvas, data) {
    const height = canvas.isNarrow ? 300 : 360;
    const plot = { left: 46, right: canvas.width - 12, top: 44, bottom: height - 42 };
    const edges = data.edges;
    const most = data.series.flatMap((series) => series.counts).reduce((a, b) => Math.max(a, b), 1);
    const xDomain = [edges[0], edges.at(-1)];
    const x = linear(xDomain, [plot.left, plot.right]);
    const y = linear([0, most * 1.05], [plot.bottom, plot.top]);
    axes(canvas, plot, {
      x: { scale: x, ticks: ticks(xDomain, (plot.right - plot.left) / 70), text: tickText, label: "advantage" },
      y: {
        scale: y,
        ticks: ticks([0, most * 1.05], 5, { whole: true }),
        text: (value) => number(value),
        label: "completions",
      },
    });
    if (edges[0] < 0 && edges.at(-1) > 0) canvas.add("line", {
      class: "chart-zero", x1: x(0), x2: x(0), y1: plot.top, y2: plot.bottom,
    });
    const shown = data.series.map((series, index) => ({ series, index })).filter(({ index }) =>
      canvas.shows(key(index)));
    for (const { series, index } of shown) canvas.add("path", {
      class: `chart-band ${seriesClass(index)}`,
      d: steps(edges, series.counts, x, y),
    });
    for (const { series, index } of shown) {
      canvas.add("path", {
        class: `chart-line ${seriesClass(index)} ${dashClass(index)}`,
        d: steps(edges, series.counts, x, y),
      });
    }
    let free = plot.left;
    for (const { series, index } of [...shown].sort((a, b) => a.series.mean - b.series.mean)) {
      const [title, all] = [named(series.run, series.title), total(series)];
      series.counts.forEach((count, bin) => canvas.mark({
        group: key(index), x: x((edges[bin] + edges[bin + 1]) / 2), y: y(count), title,
        lines: [
          `${binText(data, bin, "up to")}: ${counted(count, "completion")}`,
          `${percent(all ? count / all : 0)} of ${number(all)}`,
        ],
      }));
      const at = x(series.mean);
      canvas.add("path", {
        class: `chart-mean ${seriesClass(index)} ${dashClass(index)}`,
        d: `M${at},${plot.top - 10}V${plot.bottom}`,
      });
      canvas.add("path", { class: `chart-point ${seriesClass(index)}`, d: `M${at - 5},${plot.top - 14}h10l-5,8Z` });
      canvas.mark({
        group: `means`, x: at, y: plot.top - 11, title,
        lines: [
          `mean ${signed(series.mean, 3)}, standard deviation ${number(series.deviation, 3)}`,
          `${percent(series.zero_share)} are exactly 0`,
          counted(all, "completion"),
        ],
      });
      const words = `mean ${signed(series.mean, 2)}`;
      const length = canvas.length(words, "chart-faint");
      const left = Math.max(free, Math.min(at - length / 2, plot.right - length));
      if (Math.abs(left + length / 2 - at) < length && left + length <= canvas.width) {
        canvas.text(left, plot.top - 19, words, "chart-faint");
        free = left + length + 10;
      }
    }
    return { height };
  }

  function summary(data) {
    const told = data.series.map((series) =>
      `${named(series.run, series.title)} has mean ${signed(series.mean, 2)}, `
      + `standard deviation ${number(series.deviation, 2)} and ${percent(series.zero_share)} at exactly 0`);
    return `Advantages of critics' completions: ${told.join("; ")}.`;
  }

  function tables(data) {
    const titles = data.series.map((series) => named(series.run, series.title));
    return [
      {
        caption: data.title,
        head: ["advantage", "completions", "mean", "standard deviation", "exactly 0, %"],
        rows: data.series.map((series, index) =>
          [
            titles[index], number(total(series)), signed(series.mean, 3), number(series.deviation, 3),
            number(100 * series.zero_share, 1),
          ]),
      },
      {
        caption: "Completions by their advantage",
        head: ["from, up to", ...titles],
        rows: data.edges.slice(0, -1).map((_, bin) =>
          [binText(data, bin, "to"), ...data.series.map((series) => number(series.counts[bin]))]),
      },
    ];
  }

  Charts.register("advantages", {
    isEmpty: (data) => data.edges.length < 2 || data.series.length === 0,
    legend: (data) => [
      {
        label: "",
        items: data.series.map((series, index) =>
          ({ key: key(index), label: named(series.run, series.title), series: index, kind: "area", dash: index })),
      },
    ],
    note: () => "Completions by their advantage, over the same edges. Triangles and lines from top to bottom: means.",
    summary, tables, paint,
  });
})();
