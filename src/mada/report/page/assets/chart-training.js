/* Training: a panel per role, a line with its band per agent, and its validation points; dashes tell runs apart. */

(() => {
  "use strict";
  const {
    NOTHING, number, counted, percent, percentTick, tickText, named, distinct, linear, ticks, shareDomain,
  } = ChartCanvas;
  const { seriesClass, dashClass, shapeOf, shapePath, line, axes } = ChartCanvas;

  const BOTH = "both";
  const ROLES = ["generators", "critics"];
  const rolesOf = (data) => ROLES.filter((role) => data.curves.some((curve) => curve.role === role));
  const runsOf = (data) => distinct(data.curves.map((curve) => curve.run));
  const agentsOf = (data, role) =>
    distinct(data.curves.filter((curve) => curve.role === role).map((curve) => curve.agent));
  const key = (role, agent) => `${role} ${agent}`;
  const capital = (word) => word[0].toUpperCase() + word.slice(1);

  function legend(data) {
    const runs = runsOf(data);
    const agents = rolesOf(data).map((role) => ({
      label: capital(role),
      items: agentsOf(data, role).map((agent, index) =>
        ({ key: key(role, agent), label: agent, series: index, dash: 0, shape: shapeOf(index) })),
    }));
    const byRun = runs.map((run, index) => ({ key: `run ${run}`, label: run, series: "chart-neutral", dash: index }));
    return runs.length > 1 ? [...agents, { label: "Runs", items: byRun }] : agents;
  }

  function paintBand(canvas, curve, { plot, x, y, colour }) {
    // A mean and its deviation may pass 100 %, where no accuracy can be.
    const upper = curve.rollouts.map((point) => [x(point.step), Math.max(plot.top, y(point.high))]);
    const lower = curve.rollouts.map((point) => [x(point.step), Math.min(plot.bottom, y(point.low))]).reverse();
    if (upper.length > 1) canvas.add("path", { class: `chart-band ${colour}`, d: `${line([...upper, ...lower])}Z` });
  }

  function paintRollouts(canvas, curve, { x, y, colour, dash, group }) {
    const places = curve.rollouts.map((point) => [x(point.step), y(point.value)]);
    if (places.length === 1) {
      canvas.add("circle", { class: `chart-dot ${colour}`, cx: places[0][0], cy: places[0][1], r: 2.5 });
    } else {
      canvas.add("path", { class: `chart-line ${colour} ${dash}`, d: line(places) });
    }
    curve.rollouts.forEach((point, index) => canvas.mark({
      group: `${group} rollouts`, x: places[index][0], y: places[index][1], title: named(curve.run, curve.agent),
      lines: [
        `step ${number(point.step)}: rollouts ${percent(point.value)}`,
        `band ${percent(point.low)} to ${percent(point.high)}`,
      ],
    }));
  }

  function paintValidation(canvas, curve, { x, y, colour, dash, look, shape, group }) {
    const places = curve.validation.map((point) => [x(point.step), y(point.accuracy)]);
    // Beside the rollouts' lines a second line per agent would be one too many.
    if (canvas.choice !== BOTH) canvas.add("path", { class: `chart-line ${colour} ${dash}`, d: line(places) });
    curve.validation.forEach((point, index) => {
      const [px, py] = places[index];
      if (!point.is_best) canvas.add("path", { class: look, d: shapePath(shape, px, py, 4.2) });
      canvas.mark({
        group: `${group} validation`, x: px, y: py, title: named(curve.run, curve.agent),
        lines: [
          `step ${number(point.step)}: validation ${percent(point.accuracy)}`,
          ...(point.is_best ? ["the adapter that was kept"] : []),
        ],
      });
    });
  }

  function paintKept(canvas, curve, { x, y, colour, look, shape }) {
    for (const point of curve.validation.filter((one) => one.is_best)) {
      const [px, py] = [x(point.step), y(point.accuracy)];
      canvas.add("path", { class: look, d: shapePath(shape, px, py, 6) });
      canvas.add("circle", { class: `chart-kept ${colour}`, cx: px, cy: py, r: 10.5 });
    }
  }

  function panel(canvas, data, { role, plot, x, y, xTicks, yTicks }) {
    axes(canvas, plot, {
      x: { scale: x, ticks: xTicks, text: tickText, label: "step" },
      y: { scale: y, ticks: yTicks, text: percentTick, label: `${capital(role)}: accuracy, %` },
    });
    const agents = agentsOf(data, role);
    const runs = runsOf(data);
    const shown = data.curves
      .filter((curve) => curve.role === role && canvas.shows(key(role, curve.agent), `run ${curve.run}`))
      .map((curve) => {
        const [agent, run] = [agents.indexOf(curve.agent), runs.indexOf(curve.run)];
        const colour = seriesClass(agent);
        const look = `chart-point ${run % 2 ? "chart-hollow" : ""} ${colour}`;
        const group = `${key(role, curve.agent)} ${curve.run}`;
        return [curve, { plot, x, y, colour, dash: dashClass(run), look, shape: shapeOf(agent), group }];
      });
    if (canvas.choice !== "validation") {
      // All bands first, so that none dims another agent's line.
      for (const [curve, style] of shown) paintBand(canvas, curve, style);
      for (const [curve, style] of shown) paintRollouts(canvas, curve, style);
    }
    if (canvas.choice === "rollouts") return;
    for (const [curve, style] of shown) paintValidation(canvas, curve, style);
    // Last, so that no other agent's point covers the adapter that was kept.
    for (const [curve, style] of shown) paintKept(canvas, curve, style);
  }

  function paint(canvas, data) {
    const roles = rolesOf(data);
    const columns = canvas.width >= 640 ? roles.length : 1;
    const height = canvas.isNarrow ? 270 : 330;
    const width = canvas.width / columns;
    const values = data.curves.flatMap((curve) => [
      ...curve.rollouts.flatMap((point) => [point.low, point.high]),
      ...curve.validation.map((point) => point.accuracy),
    ]);
    const yDomain = shareDomain(values);
    roles.forEach((role, index) => {
      const [left, top] = [(index % columns) * width, Math.floor(index / columns) * height];
      const plot = {
        left: left + 40, right: left + width - 14, top: top + 30, bottom: top + height - 42, labelLeft: left,
      };
      const steps = data.curves.filter((curve) => curve.role === role).flatMap((curve) =>
        [...curve.rollouts, ...curve.validation].map((point) => point.step));
      const last = steps.reduce((most, step) => Math.max(most, step), 0) || 1;
      panel(canvas, data, {
        role, plot,
        x: linear([0, last], [plot.left + 12, plot.right - 8]), xTicks: ticks(
          [0, last], (plot.right - plot.left) / 60, { whole: true },
        ),
        y: linear(yDomain, [plot.bottom, plot.top]), yTicks: ticks(yDomain, 6),
      });
    });
    return { height: height * Math.ceil(roles.length / columns) };
  }

  function summary(data) {
    const kept = data.curves.flatMap((curve) =>
      curve.validation.filter((point) => point.is_best).map((point) => point.accuracy));
    const [least, most] = [percent(Math.min(...kept)), percent(Math.max(...kept))];
    const range = kept.length === 0 ? ""
      : `; the adapters that were kept reach ${least} to ${most} on the validation set`;
    const roles = rolesOf(data).map((role) =>
      counted(data.curves.filter((curve) => curve.role === role).length, role.slice(0, -1)));
    return `Training of ${roles.join(" and ")}: accuracy step by step${range}.`;
  }

  function tables(data) {
    const withRun = runsOf(data).some((run) => run !== "");
    const rows = data.curves.flatMap((curve) => {
      const rollouts = new Map(curve.rollouts.map((point) => [point.step, point]));
      const validation = new Map(curve.validation.map((point) => [point.step, point]));
      return distinct([...rollouts.keys(), ...validation.keys()]).sort((a, b) => a - b).map((step) => {
        const [rollout, checked] = [rollouts.get(step), validation.get(step)];
        return [
          curve.agent, ...(withRun ? [curve.run] : []), number(step),
          rollout ? number(100 * rollout.value, 1) : NOTHING,
          rollout ? `${number(100 * rollout.low, 1)} to ${number(100 * rollout.high, 1)}` : NOTHING,
          checked ? number(100 * checked.accuracy, 1) : NOTHING,
          checked?.is_best ? "kept" : NOTHING,
        ];
      });
    });
    return [
      {
        caption: `${data.title}, in percent`,
        head: ["agent", ...(withRun ? ["run"] : []), "step", "rollouts", "band", "validation", "adapter"],
        rows,
      },
    ];
  }

  Charts.register("training", {
    isEmpty: (data) => data.curves.every((curve) => curve.rollouts.length === 0 && curve.validation.length === 0),
    choices: () => ({ label: "What is shown", choices: ["rollouts", "validation", BOTH], first: BOTH }),
    note: () => "Lines and bands: rollouts, mean and one deviation to either side. "
      + "Shapes: the validation set; a ring marks the adapter that was kept.",
    summary, legend, tables, paint,
  });
})();
