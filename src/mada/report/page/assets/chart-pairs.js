/* Every system against every other, as a heat map: only differences that are more than chance have a colour. */

(() => {
  "use strict";
  const { NOTHING, svg, counted, signed, uncertain, pText, linear } = ChartCanvas;

  const LEAST_CELL = 24;
  const NUMBER_CELL = 40; // a number such as −36.1 needs that much
  const HEAD = 26;

  const isSignificant = (cell) => cell.stars !== "";
  const sideOf = (cell) => (!isSignificant(cell) ? "chance" : cell.difference >= 0 ? "better" : "worse");
  const SIDES = [
    { key: "better", label: "row significantly better", series: "chart-better", kind: "area" },
    { key: "worse", label: "row significantly worse", series: "chart-worse", kind: "area" },
    { key: "chance", label: "not significant", series: "chart-plain", kind: "area" },
  ];

  function tip(data, column, cell) {
    return [
      `minus ${column + 1} ${data.systems[column]}`,
      `${uncertain(cell.difference, cell.error, signed)} points${cell.stars ? ` ${cell.stars}` : ""}`,
      cell.p === null ? "not tested" : cell.p < 0.001 ? "p < 0.001" : `p = ${pText(cell.p)}`,
      ...(isSignificant(cell) || cell.p === null ? [] : ["not significant"]),
    ];
  }

  /** Where things are: names on the left, then square cells that shrink with their number, down to a least size. */
  function layoutOf(canvas, names) {
    const count = names.length;
    const longest = Math.max(...names.map((name) => canvas.length(name.slice(0, 80))));
    const gutter = Math.min(longest + 12, (canvas.isNarrow ? 0.42 : 0.36) * canvas.width);
    const cell = Math.max(LEAST_CELL, Math.min(76, Math.floor((canvas.width - gutter - 2) / count)));
    const row = Math.min(cell, 34);
    // The columns' numbers stand at both ends of a matrix that is higher than a window.
    const isTall = count > 12;
    return {
      count, gutter, cell, row, isTall,
      width: Math.max(canvas.width, gutter + count * cell + 2),
      height: HEAD + count * row + (isTall ? HEAD : 6),
      x: (column) => gutter + column * cell,
      y: (index) => HEAD + index * row,
    };
  }

  function paintCell(canvas, one, { left, top, layout, strength }) {
    const side = sideOf(one);
    const element = canvas.add("g", { class: `chart-cell chart-${side}` });
    const opacity = side === "chance" ? null : strength(Math.abs(one.difference)).toFixed(3);
    const place = { x: left + 1, y: top + 1, width: layout.cell - 2, height: layout.row - 2, rx: 2 };
    element.append(svg("rect", { ...place, "fill-opacity": opacity }));
    const points = signed(100 * one.difference, 1);
    const starred = `${points} ${one.stars}`.trimEnd();
    const numbers = canvas.length(starred) <= layout.cell - 8 ? starred : points;
    const content = layout.cell >= NUMBER_CELL ? numbers : { better: "+", worse: "−", chance: "" }[side];
    const middle = { x: left + layout.cell / 2, y: top + layout.row / 2 + 4, "text-anchor": "middle" };
    element.append(svg("text", { class: side === "chance" ? "chart-faint" : "chart-text", ...middle }, content));
    return element;
  }

  /** The names of the rows, which stay in view while the matrix scrolls under them. */
  function paintNames(canvas, names, layout, scroll) {
    const { gutter, row, y, height } = layout;
    const texts = names.map((name, index) =>
      svg("text", { class: "chart-text", x: 0, y: y(index) + row / 2 + 4 }, canvas.fitted(name, gutter - 10)));
    const head = canvas.fitted("row minus column, points", gutter - 6, "chart-label");
    const group = canvas.add("g", { class: "chart-gutter" },
      svg("rect", { class: "chart-gutter-ground", x: 0, y: 0, width: gutter - 2, height }),
      svg("text", { class: "chart-label", x: 0, y: HEAD - 9 }, head),
      ...texts);
    scroll.onscroll = () => group.setAttribute("transform", `translate(${scroll.scrollLeft},0)`);
    scroll.onscroll();
    return texts;
  }

  function paint(canvas, data, scroll) {
    const names = data.systems.map((title, index) => `${index + 1}  ${title}`);
    const layout = layoutOf(canvas, names);
    const { count, gutter, cell, row: rowHeight, x, y, width, height } = layout;
    const significant = data.cells.flat().filter((one) => one !== null && isSignificant(one));
    const largest = significant.reduce((most, one) => Math.max(most, Math.abs(one.difference)), 0);
    const strength = linear([0, largest || 1], [0.3, 1]);
    const levels = layout.isTall ? [HEAD - 9, height - 8] : [HEAD - 9];
    const columnTexts = data.systems.map((_, column) => levels.map((level) =>
      canvas.text(x(column) + cell / 2, level, String(column + 1), "chart-tick", "middle")));
    const cells = data.cells.flatMap((ones, row) => ones.map((one, column) => ({ one, row, column })))
      .filter(({ one }) => one !== null && canvas.shows(sideOf(one)))
      .map(({ one, row, column }) =>
        ({ one, row, column, element: paintCell(canvas, one, { left: x(column), top: y(row), layout, strength }) }));
    const crossing = (place) => canvas.add("rect", { class: "chart-crossing", visibility: "hidden", ...place });
    const across = crossing({ x: gutter, y: 0, width: count * cell, height: rowHeight });
    const down = crossing({ x: 0, y: HEAD, width: cell, height: count * rowHeight });
    const rowTexts = paintNames(canvas, names, layout, scroll);

    for (const { one, row, column, element } of cells) {
      const crossed = (isCrossed) => {
        across.setAttribute("y", y(row));
        down.setAttribute("x", x(column));
        for (const band of [across, down]) band.setAttribute("visibility", isCrossed ? "visible" : "hidden");
        for (const text of [...columnTexts[column], rowTexts[row]]) text.classList.toggle("is-active", isCrossed);
      };
      canvas.mark({
        group: `row ${row}`, element, x: x(column) + cell / 2, y: y(row) + 2,
        title: `${row + 1} ${data.systems[row]}`,
        lines: tip(data, column, one),
        enter: () => crossed(true),
        leave: () => crossed(false),
        // Keys may lead to a cell that is scrolled away, or under the names.
        reveal() {
          const [from, to] = [x(column) - gutter, x(column) + cell];
          if (from < scroll.scrollLeft) scroll.scrollLeft = from;
          else if (to > scroll.scrollLeft + scroll.clientWidth) scroll.scrollLeft = to - scroll.clientWidth;
        },
      });
    }
    return { width, height };
  }

  function summary(data) {
    const pairs = data.cells.flatMap((cells, row) => cells.filter((one, column) => one !== null && column > row));
    const significant = pairs.filter(isSignificant).length;
    return `Differences in accuracy between ${counted(data.systems.length, "system")}, row minus column: `
      + `${significant} of ${counted(pairs.length, "pair")} differ significantly.`;
  }

  function tables(data) {
    const numbered = data.systems.map((title, index) => `${index + 1} ${title}`);
    const head = ["row minus column", ...data.systems.map((_, index) => String(index + 1))];
    const rows = (write) =>
      data.cells.map((cells, row) => [numbered[row], ...cells.map((one) => (one === null ? NOTHING : write(one)))]);
    return [
      {
        caption: `${data.title}, ± standard error`,
        head,
        rows: rows((one) => `${uncertain(one.difference, one.error, signed)} ${one.stars}`.trimEnd()),
      },
      { caption: "p, not adjusted", head, rows: rows((one) => pText(one.p)) },
    ];
  }

  Charts.register("pairs", {
    isEmpty: (data) => data.systems.length === 0,
    legend: () => [{ label: "", items: SIDES }],
    note: () => "Row minus column in points. One, two or three stars: p below 0.05, 0.01 and 0.001, not adjusted.",
    summary, tables, paint,
  });
})();
