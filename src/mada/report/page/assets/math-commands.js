// What a command of TeX does: a function from the parser (just after the command's name) to a list of nodes.
// A new command is one row here.
const MathCommands = (() => {
  "use strict";

  const { Unreadable } = MathParser;
  const { element, leaf, operator, space, words, grouped } = MathNodes;
  const { symbols, byCharacter, characters, functions, limitFunctions, spelling } = MathSymbols;
  const { accents, covers, supports, negated } = MathSymbols;

  const commands = new Map();
  const define = (names, handler) => names.split(" ").forEach((name) => commands.set(name, handler));

  // Declarations hold up to the end of their group: a font, or the size of fractions and sums.
  const declarations = new Map([
    ["displaystyle", { attributes: { displaystyle: "true", scriptlevel: "0" } }],
    ["textstyle", { attributes: { displaystyle: "false", scriptlevel: "0" } }],
    ["scriptstyle", { attributes: { displaystyle: "false", scriptlevel: "1" } }],
    ["scriptscriptstyle", { attributes: { displaystyle: "false", scriptlevel: "2" } }],
    ["rm", { variant: "normal" }], ["bf", { variant: "bold" }], ["cal", { variant: "script" }],
    ["tt", { variant: "monospace" }], ["it", { variant: null }],
  ]);

  // Fractions and their relatives.
  const fraction = (numerator, denominator, attributes = {}) => element("mfrac", [numerator, denominator], attributes);
  const fenced = (open, nodes, close) => element("mrow", [
    ...(open === "" ? [] : [operator(open, "open", { form: "prefix", stretchy: "true" })]),
    ...nodes,
    ...(close === "" ? [] : [operator(close, "close", { form: "postfix", stretchy: "true" })]),
  ], { kind: "fenced" });
  const binomial = (above, below) => fenced("(", [fraction(above, below, { linethickness: "0" })], ")");
  const styledAs = (displaystyle, node) => element("mstyle", [node], { displaystyle, scriptlevel: "0" });
  const infixes = new Map([
    ["over", (above, below) => [fraction(above, below)]],
    ["choose", (above, below) => [binomial(above, below)]],
    ["atop", (above, below) => [fraction(above, below, { linethickness: "0" })]],
  ]);
  define("frac", (parser) => [fraction(parser.argument(), parser.argument())]);
  define("dfrac cfrac", (parser, name) => {
    if (name === "cfrac") parser.option();
    return [styledAs("true", fraction(parser.argument(), parser.argument()))];
  });
  define("tfrac", (parser) => [element("mstyle", [fraction(parser.argument(), parser.argument())],
    { displaystyle: "false" })]);
  define("sfrac nicefrac", (parser) => [element("mrow", [parser.argument(),
    operator("/", "ordinary", { lspace: "0", rspace: "0" }), parser.argument()])]);
  define("binom", (parser) => [binomial(parser.argument(), parser.argument())]);
  define("dbinom", (parser) => [styledAs("true", binomial(parser.argument(), parser.argument()))]);
  define("tbinom", (parser) => [styledAs("false", binomial(parser.argument(), parser.argument()))]);
  define("sqrt", (parser) => {
    const index = parser.option();
    const radicand = parser.argument();
    return [index === null ? element("msqrt", [radicand]) : element("mroot", [radicand, index])];
  });

  // Delimiters that grow with what is between them, or to a given size.
  const delimiter = (parser) => {
    parser.skipSpace();
    const token = parser.next();
    if (token.text === "." && token.type === "character") return "";
    if (token.type === "character" && token.text === "<") return "⟨";
    if (token.type === "character" && token.text === ">") return "⟩";
    const known = token.type === "command" ? symbols.get(token.text) : characters.get(token.text);
    if (known !== undefined && (["open", "close", "bar"].includes(known.kind) || "/\\↑↓↕⇑⇓[]".includes(known.text))) {
      return known.text;
    }
    throw new Unreadable(`${token.source} is no delimiter`);
  };
  define("left", (parser) => parser.deeper(() => {
    const open = delimiter(parser);
    const nodes = parser.contents("right");
    parser.next();
    return [fenced(open, [element("mrow", nodes)], delimiter(parser))];
  }));
  define("middle", (parser, name, stop) => {
    if (stop !== "right") throw new Unreadable("\\middle without \\left");
    return [operator(delimiter(parser), "relation", { form: "infix", stretchy: "true" })];
  });
  [["big", 1.2], ["Big", 1.8], ["bigg", 2.4], ["Bigg", 3]].forEach(([size, height]) => {
    [["", "ordinary"], ["l", "open"], ["r", "close"], ["m", "relation"]].forEach(([side, kind]) => {
      define(size + side, (parser) => {
        const text = delimiter(parser);
        if (text === "") return [];
        const known = characters.get(text) ?? byCharacter.get(text);
        const role = side === "" && ["open", "close"].includes(known?.kind) ? known.kind : kind;
        return [operator(text, role, { stretchy: "true", symmetric: "true", minsize: `${height}em`,
          maxsize: `${height}em`, lspace: role === "relation" ? "0.2778em" : "0",
          rspace: role === "relation" ? "0.2778em" : "0" })];
      });
    });
  });

  // Words, and mathematics between dollars within them.
  const wordsArgument = (parser, attributes) => {
    parser.skipSpace();
    if (!parser.at("{")) return [words(parser.next().source, attributes)];
    parser.next();
    const nodes = parser.deeper(() => wordsUntil(parser, (depth) => depth === 0 && parser.at("}"), attributes));
    parser.next();
    return nodes;
  };
  const closingDollar = (parser) => {
    let depth = 0;
    for (let index = parser.position; index < parser.tokens.length && depth >= 0; index += 1) {
      const { type } = parser.tokens[index];
      if (type === "$" && depth === 0) return true;
      if (type === "{") depth += 1;
      if (type === "}") depth -= 1;
    }
    return false;
  };
  const wordsUntil = (parser, ended, attributes = {}) => {
    const nodes = [];
    let text = "";
    let depth = 0;
    const flush = () => {
      if (text !== "") nodes.push(words(text.replace(/\s+/g, " "), attributes));
      text = "";
    };
    while (!ended(depth)) {
      const token = parser.next();
      if (token.type === "{") depth += 1;
      else if (token.type === "}") {
        depth -= 1;
        if (depth < 0) throw new Unreadable("} ends nothing");
      } else if (token.type === "$" && closingDollar(parser)) {
        flush();
        nodes.push(grouped(parser.contents("$")));
        parser.next();
      } else if (token.type === "~" || token.type === "space") text += " ";
      else if (token.type === "begin") {
        flush();
        nodes.push(parser.deeper(() => MathEnvironments.parse(parser, token)));
      } else if (token.type === "end") throw new Unreadable(`${token.source} ends nothing`);
      else if (token.type !== "command") text += token.text;
      else if (/^[%$#&_{}]$/.test(token.text)) text += token.text;
      else if (/^[\s,;:!\\]$/.test(token.text)) text += " ";
      else if (!WORD_FONTS.has(token.text)) {
        flush();
        nodes.push(...parser.deeper(() => parser.command(token)));
      }
    }
    flush();
    return nodes;
  };
  const WORD_FONTS = new Set(`
    text textrm textnormal textup textsf texttt textit textsl textbf textsc emph mbox hbox`.trim().split(" "));
  const WORD_CLASSES = new Map([["textbf", "math-bold"], ["textit", "math-italic"], ["emph", "math-italic"],
    ["texttt", "math-monospace"]]);
  WORD_FONTS.forEach((font) => define(font, (parser, name) => {
    const nodes = wordsArgument(parser, WORD_CLASSES.has(name) ? { class: WORD_CLASSES.get(name) } : {});
    return nodes.length === 1 ? nodes : [element("mrow", nodes)];
  }));

  // Alphabets.
  [["mathrm mathup rm", "normal"], ["mathbf bold bf", "bold"], ["boldsymbol bm pmb", "bold-italic"],
    ["mathbb Bbb", "double-struck"], ["mathcal mathscr", "script"], ["mathfrak frak", "fraktur"],
    ["mathsf", "sans-serif"], ["mathtt", "monospace"], ["mathit mathnormal", null]].forEach(([names, variant]) => {
    define(names, (parser) => {
      const outer = parser.variant;
      parser.variant = variant;
      const node = parser.argument();
      parser.variant = outer;
      return [node];
    });
  });

  // Named functions, and those with their limits below.
  const upright = (name) => (
    leaf("mi", name, { kind: "function", ...([...name].length === 1 ? { mathvariant: "normal" } : {}) }));
  const limiting = (name) => ({
    ...operator(name.replace(" ", "\u2009"), "function",
      { form: "prefix", movablelimits: "true", lspace: "0", rspace: "0" }),
    limits: "movable",
  });
  functions.forEach((name) => define(name, () => [upright(name)]));
  limitFunctions.forEach((name) => define(name, () => [limiting(spelling.get(name) ?? name)]));
  define("operatorname operatornamewithlimits", (parser, command) => {
    const starred = parser.at("character", "*");
    if (starred) parser.next();
    const name = parser.rawArgument().replace(/\\[a-zA-Z]+|\\.|[{}]/g, "").replace(/\s+/g, " ").trim();
    return [starred || command !== "operatorname" ? limiting(name) : upright(name)];
  });
  define("mathop", (parser) => [{ ...parser.argument(), kind: "function", limits: "movable" }]);
  define("mathbin mathrel mathord mathopen mathclose mathpunct mathinner", (parser) => [parser.argument()]);

  // Remainders.
  const modulus = (parser) => [leaf("mi", "mod"), space(0.3333), parser.argument()];
  define("pmod", (parser) => [space(0.6667), element("mrow", [
    operator("(", "open", { form: "prefix", stretchy: "false" }),
    ...modulus(parser),
    operator(")", "close", { form: "postfix", stretchy: "false" }),
  ])]);
  define("pod", (parser) => [space(0.6667), fenced("(", [parser.argument()], ")")]);
  define("mod", () => [space(0.6667), leaf("mi", "mod", { kind: "function" }), space(0.1667)]);
  define("bmod", () => [operator("mod", "relation", { lspace: "0.2222em", rspace: "0.2222em" })]);

  // Marks over and under.
  const over = (base, mark, attributes = {}) => element("mover", [base, mark], { accent: "true", ...attributes });
  accents.forEach((mark, name) => define(name, (parser) => [
    over(parser.argument(), operator(mark, "ordinary", { stretchy: "false" })),
  ]));
  covers.forEach((mark, name) => define(name, (parser) => {
    const node = over(parser.argument(), operator(mark, "ordinary", { stretchy: "true" }));
    return [name.startsWith("overb") ? { ...node, limits: "always" } : node];
  }));
  supports.forEach((mark, name) => define(name, (parser) => [{
    ...element("munder", [parser.argument(), operator(mark, "ordinary", { stretchy: "true" })],
      { accentunder: "true" }),
    limits: "always",
  }]));
  // A rule drawn by the page's style: fonts differ in how far they stretch a bar.
  define("overline", (parser) => [element("mrow", [parser.argument()], { class: "math-overline" })]);
  define("underline", (parser) => [element("mrow", [parser.argument()], { class: "math-underline" })]);
  // A relation that was read as an argument gets the room of a relation back.
  const asRelation = (node) => {
    const { lspace, rspace, ...attributes } = node.attributes;
    return { ...node, kind: "relation", attributes };
  };
  define("overset stackrel", (parser) => {
    const above = parser.argument();
    const base = parser.argument();
    return [base.name === "mo" ? element("mover", [asRelation(base), above], { kind: "relation" })
      : element("mover", [base, above])];
  });
  define("underset", (parser) => {
    const below = parser.argument();
    return [element("munder", [parser.argument(), below])];
  });
  define("xrightarrow xleftarrow xRightarrow xlongequal", (parser, name) => {
    const marks = { xrightarrow: "→", xleftarrow: "←", xRightarrow: "⇒", xlongequal: "=" };
    const below = parser.option();
    const above = element("mrow", [space(0.4), parser.argument(), space(0.4)]);
    const arrow = operator(marks[name], "relation", { stretchy: "true" });
    return [below === null ? element("mover", [arrow, above], { kind: "relation" })
      : element("munderover", [arrow, below, above], { kind: "relation" })];
  });
  define("substack", (parser) => [parser.argument()]);
  define("not", (parser) => {
    const node = parser.argument();
    if (node.text === undefined) return [node];
    return [asRelation({ ...node, text: negated.get(node.text) ?? `${node.text}\u0338` })];
  });

  // Boxes and what is not drawn.
  const box = (nodes) => [element("mrow", nodes, { class: "math-boxed" })];
  // \boxed{the first one}: words, which would lose their spaces as mathematics.
  const areWords = (content) => !/[\\^_{}$=]/.test(content)
    && /[A-Za-z][a-z]{3,}|[A-Za-z]{2,}\s+[A-Za-z]{2,}/.test(content);
  define("boxed", (parser) => {
    const start = parser.position;
    const content = parser.rawArgument();
    if (areWords(content)) return box([words(content)]);
    parser.position = start;
    return box([parser.argument()]);
  });
  define("fbox framebox", (parser) => box(wordsArgument(parser, {})));
  define("phantom", (parser) => [element("mphantom", [parser.argument()])]);
  const phantom = (parser, size) => [element("mpadded", [element("mphantom", [parser.argument()])], size)];
  define("hphantom", (parser) => phantom(parser, { height: "0", depth: "0" }));
  define("vphantom", (parser) => phantom(parser, { width: "0" }));
  define("cancel bcancel xcancel sout smash mathstrut displaylimits", (parser, name) =>
    name === "mathstrut" || name === "displaylimits" ? [] : [parser.argument()]);
  define("root", (parser) => {
    const index = parser.argument();
    parser.skipSpace();
    if (!parser.at("command", "of")) throw new Unreadable("\\root without \\of");
    parser.next();
    return [element("mroot", [parser.argument(), index])];
  });
  define("cancelto", (parser) => {
    const value = parser.argument();
    return [element("msup", [parser.argument(), value])];
  });

  // Colours are the page's own.
  define("color", (parser) => {
    parser.rawArgument();
    return [];
  });
  define("textcolor colorbox", (parser) => {
    parser.rawArgument();
    return [parser.argument()];
  });

  // Layout. Lengths are bounded: no formula pushes the page about.
  define("hspace hskip kern mkern mskip", (parser, name) => {
    if (parser.at("character", "*")) parser.next();
    if (name !== "hspace") return [words(`\\${name}`)];
    const length = /^\s*([\d.]+)\s*(em|ex|pt|mm|cm|in|mu)\s*$/.exec(parser.rawArgument());
    const em = { em: 1, ex: 0.5, pt: 0.1, mm: 0.28, cm: 2.8, in: 7.2, mu: 0.0556 };
    const width = length === null ? 0 : Number(length[1]) * em[length[2]];
    return [space(Number.isFinite(width) ? Math.min(4, Math.round(width * 100) / 100) : 0)];
  });
  define("tag", (parser) => {
    if (parser.at("character", "*")) parser.next();
    return [space(2), words("("), ...wordsArgument(parser, {}), words(")")];
  });
  define("label vspace cline noalign", (parser) => {
    if (parser.at("character", "*")) parser.next();
    parser.rawArgument();
    return [];
  });
  define("nonumber notag noindent indent centering allowbreak nobreak - / limits nolimits", () => []);
  define("hline toprule midrule bottomrule", () => [element("mrow", [], { kind: "line" })]);
  define("! negthinspace", () => [{ ...space(0), closesGap: true }]);
  define("tiny small normalsize large Large LARGE huge Huge bigskip medskip smallskip", () => []);
  define("renewcommand setlength", (parser) => {
    parser.rawArgument();
    parser.rawArgument();
    return [];
  });
  // A rule in a problem is a blank to fill in.
  define("rule", (parser) => {
    parser.rawArgument();
    parser.rawArgument();
    return [words("____")];
  });
  define("multicolumn", (parser) => {
    parser.rawArgument();
    parser.rawArgument();
    return [parser.argument()];
  });

  return { commands, declarations, infixes, fenced, wordsUntil };
})();
