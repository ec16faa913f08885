// Mathematics on the page: TeX in what models wrote, shown as MathML.
//
// `Mathematics.render(text)` gives a DocumentFragment of text nodes, <math> elements and, for what cannot be read,
// <code class="broken-math"> with the source. Model output is hostile input: elements are made by name from a fixed
// list, text is only ever set as text, and nothing of the source becomes an attribute.
const Mathematics = (() => {
  "use strict";

  const NAMESPACE = "http://www.w3.org/1998/Math/MathML";
  const MOST_TOKENS = 5000;
  const MOST_FORMULAS = 5000;
  // About a line of text: an inline formula longer than that cannot be broken, so the page lets it scroll.
  const LONG = 60;
  const ELEMENTS = new Set(`
    math semantics annotation mrow mi mn mo mtext mspace mfrac msqrt mroot msub msup msubsup munder mover munderover
    mtable mtr mtd mstyle mpadded mphantom`.trim().split(/\s+/));

  const built = ({ name, attributes = {}, children, text }) => {
    if (!ELEMENTS.has(name)) throw new Error(`${name} is not an element of a formula`);
    const node = document.createElementNS(NAMESPACE, name);
    for (const [attribute, value] of Object.entries(attributes)) {
      if (value !== undefined) node.setAttribute(attribute, value);
    }
    if (children === undefined) node.textContent = text;
    else node.append(...children.map(built));
    return node;
  };

  // A <math> element for a formula without its delimiters, its source kept as an annotation; null if unreadable.
  const toMathML = (source, { display = false } = {}) => {
    const tokens = MathTokens.tokenize(source, MOST_TOKENS);
    if (tokens === null) return null;
    let nodes;
    try {
      nodes = MathParser.parse(tokens);
    } catch (error) {
      if (error instanceof MathParser.Unreadable) return null;
      throw error;
    }
    const annotation = { name: "annotation", attributes: { encoding: "application/x-tex" }, text: source };
    const semantics = { name: "semantics", children: [{ name: "mrow", children: nodes }, annotation] };
    const long = tokens.filter((token) => token.type !== "space").length > LONG;
    const attributes = display ? { display: "block" } : { class: long ? "math-long" : undefined };
    return built({ name: "math", attributes, children: [semantics] });
  };

  const sourceShown = (source) => {
    const code = document.createElement("code");
    code.className = "broken-math";
    code.textContent = source;
    return code;
  };

  const formula = ({ source, tex, display }) => {
    try {
      return toMathML(tex, { display }) ?? sourceShown(source);
    } catch {
      // A fault of ours in one formula must not take the page's other words with it.
      return sourceShown(source);
    }
  };

  // A text with its mathematics drawn. Prose stays as it is written, line breaks and Markdown included.
  const render = (text) => {
    const fragment = document.createDocumentFragment();
    for (const segment of MathSegments.split(text, { most: MOST_FORMULAS })) {
      fragment.append(segment.prose !== undefined ? segment.prose : formula(segment));
    }
    return fragment;
  };

  return { render, toMathML };
})();
