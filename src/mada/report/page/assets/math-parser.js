// Tokens of TeX to a tree of MathML, the nodes of math-nodes.js.
//
// Lenient where a person sees what was meant (\\ or & outside of an environment, double scripts, unknown commands);
// where the structure is broken (braces, \left without \right, a missing argument) it throws `MathParser.Unreadable`
// and the caller shows the source. Recursion is bounded by DEEPEST, work by the number of tokens.
const MathParser = (() => {
  "use strict";

  const DEEPEST = 100;
  const { symbols, byCharacter, characters, styled } = MathSymbols;
  const { element, leaf, operator, space, words, arranged, grouped, tighten } = MathNodes;

  class Unreadable extends Error {}

  class Parser {
    constructor(tokens) {
      this.tokens = tokens;
      this.position = 0;
      this.depth = 0;
      this.variant = null;
    }

    peek() {
      return this.tokens[this.position] ?? null;
    }

    next() {
      const token = this.peek();
      if (token === null) throw new Unreadable("the formula ends too early");
      this.position += 1;
      return token;
    }

    skipSpace() {
      while (this.peek()?.type === "space") this.position += 1;
    }

    at(type, text = null) {
      const token = this.peek();
      return token !== null && token.type === type && (text === null || token.text === text);
    }

    deeper(parse) {
      this.depth += 1;
      if (this.depth > DEEPEST) throw new Unreadable("nested too deeply");
      const result = parse();
      this.depth -= 1;
      return result;
    }

    // Whether the next token ends what `stop` began; a token that ends something else is an imbalance.
    atEnd(stop) {
      const token = this.peek();
      if (token === null) {
        if (stop === "end of formula") return true;
        throw new Unreadable(`${stop} is missing`);
      }
      if (token.type === "}" || token.type === "end" || (token.type === "command" && token.text === "right")) {
        const name = token.type === "command" ? "right" : token.type;
        if (name !== stop) throw new Unreadable(`${token.source} ends nothing`);
        return true;
      }
      return (stop === "]" || stop === "$") && token.text === stop && token.type !== "command";
    }

    // Rows of cells up to `stop` (which stays unread), each cell a list of nodes; a change of font ends with them.
    rows(stop, parseCell = () => this.cell(stop)) {
      return this.deeper(() => {
        const variant = this.variant;
        const rows = [[parseCell()]];
        while (!this.atEnd(stop)) {
          const token = this.next();
          if (token.type === "&") rows.at(-1).push(parseCell());
          else {
            this.rowSpacing();
            rows.push([parseCell()]);
          }
        }
        this.variant = variant;
        return rows;
      });
    }

    // The [2pt] of \\[2pt]; a bracket that holds no length is the next row's.
    rowSpacing() {
      const ahead = this.tokens.slice(this.position, this.position + 12).map((token) => token.source).join("");
      const length = /^\*?\s*\[\s*-?[\d.]+\s*(?:pt|em|ex|mm|cm|in|mu|bp|pc)\s*\]/.exec(ahead);
      if (length === null) return;
      for (let read = 0; read < length[0].length; ) read += this.next().source.length;
    }

    atCellEnd(stop) {
      return this.atEnd(stop) || this.at("&") || this.at("command", "\\") || this.at("command", "cr");
    }

    // The nodes of one cell. Declarations (\displaystyle) and infix fractions (\over) reach over the whole of it.
    cell(stop) {
      let nodes = [];
      let style = null;
      let fraction = null;
      const styledNodes = () => {
        if (style === null) return nodes;
        const inner = arranged(nodes.slice(style.from));
        return [...nodes.slice(0, style.from), element("mstyle", inner, style.attributes)];
      };
      for (;;) {
        this.skipSpace();
        if (this.atCellEnd(stop)) break;
        const token = this.peek();
        const declaration = token.type === "command" ? MathCommands.declarations.get(token.text) : undefined;
        const infix = token.type === "command" ? MathCommands.infixes.get(token.text) : undefined;
        if (declaration !== undefined) {
          this.next();
          if (declaration.variant !== undefined) this.variant = declaration.variant;
          else style = { from: style?.from ?? nodes.length, attributes: declaration.attributes };
        } else if (infix !== undefined) {
          if (fraction !== null) throw new Unreadable("two fractions in one group");
          this.next();
          fraction = { infix, numerator: styledNodes() };
          nodes = [];
          style = null;
        } else nodes.push(...this.scripted(stop));
      }
      nodes = styledNodes();
      if (fraction === null) return nodes;
      return fraction.infix(grouped(arranged(fraction.numerator)), grouped(arranged(nodes)));
    }

    // Everything up to `stop` as a list of nodes; several cells become a table, as in an alignment.
    contents(stop) {
      const rows = this.rows(stop);
      if (rows.length === 1 && rows[0].length === 1) return arranged(rows[0][0]);
      return [MathEnvironments.table(rows, { class: "math-aligned", displaystyle: "true" })];
    }

    group() {
      const nodes = this.contents("}");
      this.next();
      return grouped(nodes);
    }

    // What a command or a script applies to: a group, a command with its own arguments, or a single character.
    argument() {
      this.skipSpace();
      return this.deeper(() => {
        const token = this.next();
        if (token.type === "{") return this.group();
        if (token.type === "command") return grouped(this.command(token));
        if (token.type === "begin") return MathEnvironments.parse(this, token);
        if (token.type === "character") return grouped([this.character(token, { single: true })]);
        if (token.type === "~") return space(0.25);
        throw new Unreadable(`${token.source} is no argument`);
      });
    }

    // [n] as in \sqrt[n]{x}; null where there is none.
    option() {
      this.skipSpace();
      if (!this.at("character", "[")) return null;
      this.next();
      const nodes = this.contents("]");
      this.next();
      return grouped(nodes);
    }

    // The source of a {group} that is not mathematics: a colour, a length, a column layout.
    rawArgument() {
      this.skipSpace();
      if (!this.at("{")) return this.next().source;
      let text = "";
      let open = 0;
      do {
        const token = this.next();
        if (token.type === "{") open += 1;
        if (token.type === "}") open -= 1;
        text += token.source;
      } while (open > 0);
      return text.slice(1, -1);
    }

    // An atom with its subscript, superscript and primes. A list, because a command may yield none or several nodes.
    scripted(stop) {
      const nodes = this.at("^") || this.at("_") || this.at("'") ? [element("mrow", [])] : this.atom(stop);
      if (nodes.length === 0) return nodes;
      const base = nodes.pop();
      const scripts = { primes: "", below: [], above: [], limits: base.limits ?? null };
      let before = this.position;
      for (this.skipSpace(); this.script(scripts); this.skipSpace()) before = this.position;
      this.position = before;
      return [...nodes, this.withScripts(base, scripts)];
    }

    // Reads one script into `scripts`; false where there is none.
    script(scripts) {
      const token = this.peek();
      const placement = token?.type === "command" && ["limits", "nolimits"].includes(token.text);
      if (!placement && !["^", "_", "'"].includes(token?.type)) return false;
      this.next();
      if (placement) scripts.limits = token.text === "limits" ? "always" : null;
      else if (token.type === "'") scripts.primes += "′";
      else if (token.type === "_") scripts.below.push(this.argument());
      else {
        const argument = this.argument();
        const parts = argument.name === "mrow" ? argument.children : [argument];
        if (parts.length > 0 && parts.every((part) => part.text === "′")) scripts.primes += "′".repeat(parts.length);
        else scripts.above.push(argument);
      }
      return true;
    }

    // Fonts draw ′ raised already, so primes stand beside the base and not in its superscript.
    withScripts(base, { primes, below, above, limits }) {
      const kind = { kind: base.kind === "space" ? "ordinary" : base.kind };
      if (limits === "always" && base.name === "mo") base.attributes.movablelimits = "false";
      const mark = primes.length > 3 ? primes : ["", "′", "″", "‴"][primes.length];
      const prime = operator(mark, "ordinary", { lspace: "0", rspace: "0" });
      const primed = mark === "" ? base : element("mrow", [base, prime], kind);
      const [under, over, both] = limits === null ? ["msub", "msup", "msubsup"] : ["munder", "mover", "munderover"];
      if (below.length > 0 && above.length > 0) return element(both, [primed, grouped(below), grouped(above)], kind);
      if (below.length > 0) return element(under, [primed, grouped(below)], kind);
      if (above.length > 0) return element(over, [primed, grouped(above)], kind);
      return primed;
    }

    atom(stop) {
      const token = this.next();
      if (token.type === "character") return [this.character(token)];
      if (token.type === "command") return this.command(token, stop);
      if (token.type === "{") return [this.deeper(() => this.group())];
      if (token.type === "begin") return [this.deeper(() => MathEnvironments.parse(this, token))];
      if (token.type === "~") return [space(0.25)];
      if (token.type === "$") return [words("$", { kind: "dollar" })];
      throw new Unreadable(`${token.source} has no meaning here`);
    }

    // A letter, a number or a sign; `single` takes one digit only, as TeX does in \frac12.
    character(token, { single = false } = {}) {
      const text = token.text;
      if (/^[0-9]$/.test(text)) return this.number(text, single);
      if (/^[A-Za-z]$/.test(text)) return this.letters(text, single);
      const known = characters.get(text) ?? byCharacter.get(text);
      if (known !== undefined) return this.symbol(known);
      if (/^\p{L}$/u.test(text) && !/^\p{Lo}$/u.test(text)) return leaf("mi", text);
      return words(text);
    }

    number(digit, single) {
      let text = digit;
      while (!single && this.at("character")) {
        const following = this.tokens[this.position + 1];
        const isDigit = (token) => token?.type === "character" && /^[0-9]$/.test(token.text);
        if (!isDigit(this.peek()) && !(this.at("character", ".") && isDigit(following) && !text.includes("."))) break;
        text += this.next().text;
      }
      return leaf("mn", [...text].map((character) => styled(character, this.variant)).join(""));
    }

    // In a font for words (\mathrm, \mathbf) neighbouring letters are one word; otherwise each is its own variable.
    letters(first, single) {
      if (this.variant === null) return leaf("mi", first);
      let text = first;
      if (this.variant !== "double-struck" && this.variant !== "bold-italic") {
        while (!single && this.at("character") && /^[A-Za-z]$/.test(this.peek().text)) text += this.next().text;
      }
      const shown = [...text].map((letter) => styled(letter, this.variant)).join("");
      return leaf("mi", shown, text.length === 1 ? { mathvariant: "normal" } : {});
    }

    symbol({ kind, text }) {
      if (kind === "letter") return leaf("mi", styled(text, this.variant));
      if (kind === "upright") return leaf("mi", styled(text, this.variant), { mathvariant: "normal" });
      if (kind === "plain") return operator(text, "ordinary", { lspace: "0", rspace: "0" });
      if (kind === "bar") return operator(text, kind, { stretchy: "false", lspace: "0", rspace: "0" });
      if (kind === "open") return operator(text, kind, { form: "prefix", stretchy: "false" });
      if (text === "!") return operator(text, kind, { form: "postfix" });
      if (kind === "close") return operator(text, kind, { form: "postfix", stretchy: "false" });
      if (kind === "large") return { ...operator(text, "large"), limits: "movable" };
      if (kind === "integral") return operator(text, "large");
      return operator(text, kind, "∣∥↑↓↕⇑⇓".includes(text) ? { stretchy: "false" } : {});
    }

    command(token, stop = "end of formula") {
      const { text: name } = token;
      const handler = MathCommands.commands.get(name);
      if (handler !== undefined) return handler(this, name, stop);
      const known = symbols.get(name);
      if (known !== undefined) return [this.symbol(known)];
      if (MathSymbols.spaces.has(name)) return [space(MathSymbols.spaces.get(name))];
      return [words(token.source)];
    }
  }

  // A whole formula as one list of nodes.
  const parse = (tokens) => {
    const nodes = new Parser(tokens).contents("end of formula");
    nodes.forEach((node) => tighten(node, false));
    return nodes;
  };

  return { parse, Unreadable };
})();
