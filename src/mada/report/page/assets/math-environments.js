// \begin{…} … \end{…}: matrices, cases, aligned equations and tables.
const MathEnvironments = (() => {
  "use strict";

  const { Unreadable } = MathParser;
  const { element, arranged, drawn } = MathNodes;

  const matrix = (open, close) => ({ open, close, attributes: { class: "math-matrix" } });
  const aligned = { attributes: { class: "math-aligned", displaystyle: "true" } };
  const gathered = { attributes: { class: "math-gathered", displaystyle: "true" } };
  const environments = new Map([
    ["matrix", matrix("", "")], ["pmatrix", matrix("(", ")")], ["bmatrix", matrix("[", "]")],
    ["Bmatrix", matrix("{", "}")], ["vmatrix", matrix("|", "|")], ["Vmatrix", matrix("‖", "‖")],
    ["smallmatrix", { open: "", close: "", attributes: { class: "math-matrix", scriptlevel: "1" } }],
    ["cases", { open: "{", close: "", attributes: { class: "math-cases" } }],
    ["dcases", { open: "{", close: "", attributes: { class: "math-cases", displaystyle: "true" } }],
    ["rcases", { open: "", close: "}", attributes: { class: "math-cases" } }],
    ["array", { columns: true, attributes: { class: "math-array" } }],
    ["tabular", { columns: true, words: true, attributes: { class: "math-array" } }],
    ["subarray", { columns: true, attributes: { class: "math-array" } }],
    ["alignat", { ...aligned, count: true }], ["alignedat", { ...aligned, count: true }],
    ...["align", "aligned", "split", "eqnarray", "flalign"].map((name) => [name, aligned]),
    ...["gather", "gathered", "equation", "multline", "displaymath", "math"].map((name) => [name, gathered]),
  ]);
  const named = (name) => environments.get(name.replace(/\*$/, ""));
  // Those that begin a displayed formula where they stand in prose.
  const displays = (name) => named(name) !== undefined && name !== "math";

  const MAXIMAL_COLUMNS = 64;

  // {l|cr} as one class per column, with the rules that stand before columns; *{3}{c} is written out.
  const columnClasses = (layout) => {
    const repeated = /\*\s*\{(\d{1,2})\}\s*\{([^{}]*)\}/g;
    const written = layout.replace(repeated, (_, count, columns) => columns.repeat(Math.min(count, 20)))
      .replace(/[@!pmb]\s*\{[^{}]*\}/g, (match) => ("pmb".includes(match[0]) ? "l" : ""));
    const classes = [];
    let rule = "";
    for (const letter of written) {
      if (letter === "|") rule = " math-rule";
      else if ("lcr".includes(letter)) {
        classes.push(`math-column-${letter}${rule}`);
        rule = "";
      }
    }
    if (rule !== "" && classes.length > 0) classes.push(`${classes.pop()} math-rule-after`);
    return classes.slice(0, MAXIMAL_COLUMNS);
  };

  // An mtable of rows; `columns` has a class for each column, `attributes` say how the page's style sets the table.
  const table = (rows, attributes, columns = []) => {
    // What follows the last \\ is a row only if something stands there.
    const last = rows.at(-1);
    const closed = rows.length > 1 && last.length === 1 && drawn(last[0]).length === 0;
    const kept = closed ? rows.slice(0, -1) : rows;
    const continues = attributes.class === "math-aligned";
    const cell = (nodes, index) => element("mtd", arranged(nodes, { continued: continues && index % 2 === 1 }),
      columns[index] === undefined ? {} : { class: columns[index] });
    const underLine = (cells) => cells[0].some((node) => node.kind === "line");
    const row = (cells, index) => {
      const above = underLine(cells) ? ["math-line"] : [];
      const below = closed && index === kept.length - 1 && underLine(last) ? ["math-line-after"] : [];
      const classes = [...above, ...below];
      return element("mtr", cells.map(cell), classes.length === 0 ? {} : { class: classes.join(" ") });
    };
    return element("mtable", kept.map(row), attributes);
  };

  // The environment whose \begin was just read, up to and including its \end.
  const parse = (parser, begin) => {
    const environment = named(begin.text);
    if (environment === undefined) throw new Unreadable(`${begin.source} is unknown`);
    if (environment.count) parser.rawArgument();
    verticalPosition(parser);
    const columns = environment.columns ? columnClasses(parser.rawArgument()) : [];
    const rows = parser.rows("end", () => (environment.words ? wordsCell(parser) : parser.cell("end")));
    const end = parser.next();
    if (end.text !== begin.text) throw new Unreadable(`${begin.source} ends with ${end.source}`);
    const node = table(rows, environment.attributes, columns);
    const { open = "", close = "" } = environment;
    return open === "" && close === "" ? node : MathCommands.fenced(open, [node], close);
  };

  // [t] of \begin{array}[t]{…}.
  const verticalPosition = (parser) => {
    const ahead = parser.tokens.slice(parser.position, parser.position + 3).map((token) => token.source).join("");
    if (/^\[[tbc]\]$/.test(ahead)) parser.position += 3;
  };

  const wordsCell = (parser) => {
    const nodes = MathCommands.wordsUntil(parser, (depth) => depth === 0 && parser.atCellEnd("end"));
    const blank = (node) => node?.name === "mtext" && node.text.trim() === "";
    if (blank(nodes[0])) nodes.shift();
    if (blank(nodes.at(-1))) nodes.pop();
    return nodes;
  };

  return { parse, table, displays };
})();
