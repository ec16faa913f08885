/* Votes from round to round, an alluvial diagram per debate: right above, wrong below, bands for what changed. */

(() => {
  "use strict";
  const { number, percent, counted, named, linear } = ChartCanvas;

  const KINDS = [
    { key: "right_to_right", label: "right, stays right", was: "right", becomes: "right" },
    { key: "right_to_wrong", label: "right, turns wrong", was: "right", becomes: "wrong" },
    { key: "wrong_to_right", label: "wrong, turns right", was: "wrong", becomes: "right" },
    { key: "wrong_to_wrong", label: "wrong, stays wrong", was: "wrong", becomes: "wrong" },
  ];
  const GAP = 28; // between debates, side by side
  const kindClass = ({ was, becomes }) => `chart-${becomes} ${was === becomes ? "chart-stays" : "chart-turns"}`;

  /** Shares right before the first round that changed anything, and after each of them. */
  const rightShares = (flow) => [
    flow.steps[0].right_to_right + flow.steps[0].right_to_wrong,
    ...flow.steps.map((step) => step.right_to_right + step.wrong_to_right),
  ];

  function band(from, to, start, end, size) {
    const middle = (from + to) / 2;
    return `M${from},${start}C${middle},${start} ${middle},${end} ${to},${end}V${end + size}`
      + `C${middle},${end + size} ${middle},${start + size} ${from},${start + size}Z`;
  }

  function panel(canvas, flow, { left, top, width, height }) {
    const rights = rightShares(flow);
    const block = 36;
    const gap = 8;
    const room = height - 60;
    const size = linear([0, 1], [0, room - gap]);
    const above = top + 30;
    const column = linear([0, rights.length - 1], [left + 38, left + width - 40 - block]);
    const wrongTop = (round) => above + size(rights[round]) + gap;
    canvas.text(
      left,
      top + 12,
      canvas.fitted(named(flow.run, flow.title), width - 12, "chart-text chart-strong"),
      "chart-text chart-strong",
    );

    const bandLabels = [];
    flow.steps.forEach((step, round) => {
      const [from, to] = [column(round) + block, column(round + 1)];
      const starts = {
        right_to_right: above, right_to_wrong: above + size(step.right_to_right),
        wrong_to_right: wrongTop(round), wrong_to_wrong: wrongTop(round) + size(step.wrong_to_right),
      };
      const ends = {
        right_to_right: above, wrong_to_right: above + size(step.right_to_right),
        right_to_wrong: wrongTop(round + 1), wrong_to_wrong: wrongTop(round + 1) + size(step.right_to_wrong),
      };
      for (const kind of KINDS) {
        const share = step[kind.key];
        if (share <= 0 || !canvas.shows(kind.key)) continue;
        const [start, end, thick] = [starts[kind.key], ends[kind.key], size(share)];
        const element = canvas.add("path", {
          class: `chart-flow ${kindClass(kind)}`, d: band(from, to, start, end, thick),
        });
        const [x, y] = [(from + to) / 2, (start + end + thick) / 2];
        canvas.mark({
          group: `${flow.run} ${flow.title} ${round}`, element, x, y, title: named(flow.run, flow.title),
          lines: [
            `round ${round + 1} to round ${round + 2}`,
            `${percent(share)} of all questions: ${kind.was} before, ${kind.becomes} after`,
          ],
        });
        // Turning bands cross: what improves is labelled where it sets out, what is damaged where it ends.
        const content = number(100 * share, 1);
        if (to - from < 66) continue;
        if (kind.was === kind.becomes && thick >= 11) bandLabels.push([x, y + 4, content, "middle"]);
        if (kind.key === "wrong_to_right") bandLabels.push([from + 5, start + thick / 2 + 4, content, "start"]);
        if (kind.key === "right_to_wrong") bandLabels.push([to - 5, end + thick / 2 + 4, content, "end"]);
      }
    });
    rights.forEach((right, round) => {
      for (const [side, share, y] of [["right", right, above], ["wrong", 1 - right, wrongTop(round)]]) {
        const [left, middle, content] = [column(round), y + size(share) / 2, number(100 * share, 1)];
        canvas.add("rect", {
          class: `chart-block chart-${side}`, x: left, y, width: block, height: Math.max(0, size(share)),
        });
        const hasRoom = size(share) >= 14;
        if (hasRoom) canvas.text(left + block / 2, middle + 4, content, "chart-text chart-on-block", "middle");
        const words = hasRoom ? side : content;
        if (round === 0) canvas.text(left - 5, middle + 4, words, "chart-faint", "end");
        else if (round === rights.length - 1) canvas.text(left + block + 5, middle + 4, words, "chart-faint");
      }
      canvas.text(column(round) + block / 2, above + room + 16, `round ${round + 1}`, "chart-tick", "middle");
    });
    for (const [x, y, content, anchor] of bandLabels) canvas.text(x, y, content, "chart-text chart-on-band", anchor);
  }

  function paint(canvas, data) {
    const flows = data.flows.filter((flow) => flow.steps.length > 0);
    const least = 220 + 90 * Math.max(...flows.map((flow) => flow.steps.length));
    const columns = Math.max(1, Math.min(flows.length, 3, Math.floor(canvas.width / least)));
    const [width, height] = [(canvas.width - GAP * (columns - 1)) / columns, canvas.isNarrow ? 270 : 310];
    flows.forEach((flow, index) => panel(canvas, flow, {
      left: (index % columns) * (width + GAP), top: Math.floor(index / columns) * height, width, height: height - 14,
    }));
    return { height: Math.ceil(flows.length / columns) * height - 10 };
  }

  function summary(data) {
    const told = data.flows.filter((flow) => flow.steps.length > 0).map((flow) => {
      const rights = rightShares(flow);
      return `${named(flow.run, flow.title)} from ${percent(rights[0])} to ${percent(rights.at(-1))}`;
    });
    const debates = counted(told.length, "debate");
    return `How many votes are right from the first round to the last, ${debates}: ${told.join("; ")}.`;
  }

  function tables(data) {
    const withRun = data.flows.some((flow) => flow.run !== "");
    return [{
      caption: `${data.title}, in percent of all questions`,
      head: [
        "debate", ...(withRun ? ["run"] : []), "rounds", "right → right", "right → wrong", "wrong → right",
        "wrong → wrong",
      ],
      rows: data.flows.flatMap((flow) => flow.steps.map((step, round) =>
        [
          flow.title, ...(withRun ? [flow.run] : []), `${round + 1} → ${round + 2}`,
          ...KINDS.map((kind) => number(100 * step[kind.key], 1)),
        ])),
    }];
  }

  Charts.register("flow", {
    isEmpty: (data) => data.flows.every((flow) => flow.steps.length === 0),
    legend: () => [
      {
        label: "",
        items: KINDS.map((kind) => ({ key: kind.key, label: kind.label, series: kindClass(kind), kind: "area" })),
      },
    ],
    note: () => "Percent of all questions, by what the vote was before a round and after it.",
    summary, tables, paint,
  });
})();
