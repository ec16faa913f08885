// A formula as a tree of plain values {name, kind, attributes, children | text}, and what neighbours do to each other.
// `kind` is the part that a node plays in its row; it decides about space and is never shown.
const MathNodes = (() => {
  "use strict";

  const element = (name, children, { kind = "ordinary", ...attributes } = {}) => ({ name, kind, attributes, children });
  const leaf = (name, text, { kind = "ordinary", ...attributes } = {}) => ({ name, kind, attributes, text });
  const operator = (text, kind, attributes = {}) => leaf("mo", text, { kind, ...attributes });
  const space = (width) => element("mspace", [], { kind: "space", width: `${width}em` });
  // Spaces at the ends of a token element would be dropped, and runs of them joined.
  const words = (text, attributes = {}) => leaf("mtext", text.replace(/\s/g, "\u00a0"), attributes);

  const ENDS_OPERAND = new Set(["ordinary", "close", "fenced"]);
  const NEEDS_ROOM = new Set(["ordinary", "function"]);

  // The nodes of one row that are drawn: no marks of the parser's own (\hline), no superfluous dollars.
  const drawn = (nodes) => {
    // Inside a formula $…$ only repeats what is already the case; a single $ is money.
    const paired = nodes.filter((node) => node.kind === "dollar").length % 2 === 0;
    return nodes.filter((node) => node.kind !== "line" && !(paired && node.kind === "dollar"));
  };

  // A sign where no operand stands before it, or an operator with nothing to its right, is no binary operator.
  const settleOperator = (node, { operand, next, continued }) => {
    if (next === null || ["close", "relation", "punctuation"].includes(next.kind)) {
      Object.assign(node.attributes, { lspace: "0", rspace: "0" });
    } else if (continued) node.attributes.form = "infix";
    else if (!operand) {
      Object.assign(node.attributes, "+−±∓".includes(node.text) ? { form: "prefix" } : { lspace: "0", rspace: "0" });
    }
  };

  // The children of one row with what depends on neighbours: signs told from binary operators, room around functions.
  // A row is continued where it goes on with what stands left of an alignment mark.
  const arranged = (nodes, { continued = false } = {}) => {
    const kept = drawn(nodes);
    const following = new Array(kept.length);
    for (let index = kept.length - 1, next = null; index >= 0; index -= 1) {
      following[index] = next;
      if (kept[index].kind !== "space") next = kept[index];
    }
    const row = [];
    let before = null;
    let insideBars = false;
    kept.forEach((node, index) => {
      const next = following[index];
      const operand = ENDS_OPERAND.has(before?.kind) || (before?.kind === "bar" && !insideBars);
      if (node.closesGap) {
        if (before?.name === "mo") before.attributes.rspace = "0";
        return;
      }
      if (node.kind === "binary" && node.name === "mo") {
        settleOperator(node, { operand, next, continued: continued && before === null });
      }
      if (node.kind === "function" && operand) row.push(space(0.1667));
      row.push(node);
      if (node.kind === "function" && NEEDS_ROOM.has(next?.kind)) row.push(space(0.1667));
      if (node.kind === "bar") insideBars = !insideBars;
      if (node.kind !== "space") before = node;
    });
    return row;
  };

  // One node for a row, as an ordinary symbol: {=} and {,} lose the space around them.
  const grouped = (nodes) => {
    if (nodes.length !== 1) return element("mrow", nodes);
    const [node] = nodes;
    if (node.name === "mo") Object.assign(node.attributes, { lspace: "0", rspace: "0" });
    return { ...node, kind: node.kind === "large" || node.kind === "function" ? node.kind : "ordinary" };
  };

  // In scripts operators stand close, as in TeX; a browser would keep the full space around them.
  const SCRIPTS = new Set(["msub", "msup", "msubsup", "munder", "mover", "munderover", "mroot"]);
  const tighten = (node, script) => {
    if (script && node.name === "mo" && (node.kind === "binary" || node.kind === "relation")) {
      Object.assign(node.attributes, { lspace: "0", rspace: "0" });
    }
    node.children?.forEach((child, index) => tighten(child, script || (index > 0 && SCRIPTS.has(node.name))));
  };

  return { element, leaf, operator, space, words, drawn, arranged, grouped, tighten };
})();
