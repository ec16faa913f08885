/* How right the last round is by how many generators were: bars for its answers, marks for its vote, and below the axis
   how often that many were right, so that a bar of three debates is not read like one of three hundred. */

(() => {
  "use strict";
  const { NOTHING, number, counted, percent, percentTick, named, linear, ticks } = ChartCanvas;
  const { svg, seriesClass, shapeOf, shapePath } = ChartCanvas;

  const VOTES = "votes";
  const SHARES = 46; // pixels for the strip of shares under the axis

  function legend(data) {
    const systems = data.systems.map((system, index) => ({
      key: `system ${index}`, label: named(system.run, system.title),
      series: index, kind: "area", shape: shapeOf(index),
    }));
    return [
      {
        label: "",
        items: [...systems, { key: VOTES, label: "vote of the last round", series: "chart-neutral", shape: "circle" }],
      },
    ];
  }

  function linesOf(system, count) {
    const debates = `${counted(count.debates, "debate")}, ${percent(count.share)} of questions`;
    return [
      `${count.right} of ${counted(system.generators, "generator")} right: ${debates}`,
      count.accuracy === null ? "no accuracy without debates" : `accuracy of the last round ${percent(count.accuracy)}`,
      ...(count.vote === null ? [] : [`vote of the last round ${percent(count.vote)}`]),
    ];
  }

  /** One system's debates of one count: its bar, its mark, its share below, and an area that answers to the pointer. */
  function bar(canvas, system, count, { index, left, width, plot, y, floor, strip }) {
    const top = y(count.accuracy ?? 0);
    const wide = Math.max(1, width - 2);
    const share = Math.max(count.debates > 0 ? 1 : 0, strip(count.share));
    const element = canvas.add("g", { class: `chart-bars ${seriesClass(index)}` },
      // The whole height answers, so that low bars can be met.
      svg("rect", { class: "chart-hit", x: left, y: plot.top, width, height: floor + SHARES - plot.top }),
      svg("rect", { class: "chart-bar", x: left + 1, y: top, width: wide, height: plot.bottom - top }),
      svg("rect", { class: "chart-share", x: left + 1, y: floor, width: wide, height: share }));
    const middle = left + width / 2;
    if (count.vote !== null && canvas.shows(VOTES)) {
      const shape = shapePath(shapeOf(index), middle, y(count.vote), Math.min(5, width / 3));
      element.append(svg("path", { class: "chart-vote", d: shape }));
    }
    if (width >= 26 && count.debates > 0) {
      canvas.text(middle, floor + share + 11, number(100 * count.share), "chart-faint", "middle");
    }
    canvas.mark({
      group: `right ${count.right}`, element, x: middle, y: Math.min(top, y(count.vote ?? 0)),
      title: named(system.run, system.title), lines: linesOf(system, count),
    });
  }

  function paint(canvas, data) {
    const height = canvas.isNarrow ? 360 : 420;
    const plot = { left: 40, right: canvas.width - 8, top: 30, bottom: height - 60 - SHARES };
    const y = linear([0, 1], [plot.bottom, plot.top]);
    const shares = data.systems.flatMap((system) => system.counts.map((count) => count.share));
    const strip = linear([0, Math.max(...shares) || 1], [0, SHARES - 8]);
    const floor = plot.bottom + 22;
    for (const tick of ticks([0, 1], 5)) {
      canvas.add("line", { class: "chart-grid", x1: plot.left, x2: plot.right, y1: y(tick), y2: y(tick) });
      canvas.text(plot.left - 7, y(tick) + 4, percentTick(tick), "chart-tick", "end");
    }
    for (const level of [plot.bottom, floor]) {
      canvas.add("line", { class: "chart-axis", x1: plot.left, x2: plot.right, y1: level, y2: level });
    }
    canvas.text(0, plot.top - 12, "accuracy of the last round, %", "chart-label");
    canvas.text(plot.right, height - 8, "generators right in the first round", "chart-label", "end");

    const most = Math.max(...data.systems.map((system) => system.generators));
    const slot = (plot.right - plot.left) / (most + 1);
    const shown = data.systems.map((_, index) => index).filter((index) => canvas.shows(`system ${index}`));
    const width = Math.min(54, (slot * 0.78) / Math.max(1, shown.length));
    for (let right = 0; right <= most; right += 1) {
      const centre = plot.left + slot * (right + 0.5);
      const words = canvas.isNarrow ? String(right) : `${right} right`;
      canvas.text(centre, plot.bottom + 15, words, "chart-tick", "middle");
      shown.forEach((index, place) => {
        const system = data.systems[index];
        const count = system.counts.find((entry) => entry.right === right);
        const left = centre + (place - shown.length / 2) * width;
        if (count) bar(canvas, system, count, { index, left, width, plot, y, floor, strip });
      });
    }
    return { height };
  }

  function summary(data) {
    const told = data.systems.map((system) => {
      const known = system.counts.filter((count) => count.accuracy !== null);
      if (known.length === 0) return `${named(system.run, system.title)} without any debate`;
      const told = (count) => `${percent(count.accuracy)} with ${count.right} right`;
      return `${named(system.run, system.title)} from ${told(known[0])} to ${told(known.at(-1))}`;
    });
    return `Accuracy of the last round by how many generators were right: ${told.join("; ")}.`;
  }

  function tables(data) {
    const withRun = data.systems.some((system) => system.run !== "");
    const share = (value) => (value === null ? NOTHING : number(100 * value, 1));
    return [{
      caption: `${data.title}, in percent`,
      head: [
        "debate", ...(withRun ? ["run"] : []), "generators right", "debates", "share of questions",
        "last round's accuracy", "last vote right",
      ],
      rows: data.systems.flatMap((system) => system.counts.map((count) => [
        system.title, ...(withRun ? [system.run] : []), `${count.right} of ${system.generators}`, number(count.debates),
        share(count.share), share(count.accuracy), share(count.vote),
      ])),
    }];
  }

  Charts.register("critics", {
    isEmpty: (data) => data.systems.every((system) => system.counts.length === 0),
    note: () => "Bars: the last round's answers. Marks: its vote. Below the axis: the share of questions, in percent.",
    summary, legend, tables, paint,
  });
})();
