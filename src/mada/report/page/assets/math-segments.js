// Where mathematics begins and ends in what a model wrote. One pass over the text, with every search remembered, so
// that a megabyte of dollars costs no more than a megabyte of words.
const MathSegments = (() => {
  "use strict";

  const LONGEST_INLINE = 3000;
  const LONGEST_DISPLAY = 20000;
  const LONGEST_WORDS = 400;

  // The position of the next occurrence of `pattern` at or after `from`, for growing values of `from`.
  const searcher = (text, pattern) => {
    let found = -1;
    return (from) => {
      if (found !== Infinity && found < from) {
        const index = text.indexOf(pattern, from);
        found = index === -1 ? Infinity : index;
      }
      return found;
    };
  };

  // Opening brace → closing brace, and \begin → the start and end of its \end, for a whole text.
  const matchingBraces = (text) => {
    const matches = new Map();
    const open = [];
    for (const { 0: found, index } of text.matchAll(/\\[^]|[{}]/g)) {
      if (found === "{") open.push(index);
      else if (found === "}" && open.length > 0) matches.set(open.pop(), index);
    }
    return matches;
  };
  const matchingEnvironments = (text) => {
    const matches = new Map();
    const open = new Map();
    for (const { 0: found, 1: boundary, 2: name, index } of text.matchAll(/\\(begin|end)\{([A-Za-z]+\*?)\}/g)) {
      if (!open.has(name)) open.set(name, []);
      if (boundary === "begin") open.get(name).push(index);
      else if (open.get(name).length > 0) matches.set(open.get(name).pop(), { name, end: index + found.length });
    }
    return matches;
  };

  // Whether there are words of a sentence in it: names of functions and products of variables (ab) are none.
  const FUNCTION_NAMES = new Set("sin cos tan cot sec csc log exp mod max min gcd lcm".split(" "));
  const SHORT_WORDS = new Set("to or in of is at by if on so he it we an as be".split(" "));
  const hasWords = (content) => (content.match(/(?<=^|\s)[a-z]{2,}(?![A-Za-z])/g) ?? [])
    .some((word) => (word.length === 2 ? SHORT_WORDS.has(word) : !FUNCTION_NAMES.has(word)));

  // "$5 to 10$" and "$5 x 2 =$ 10": an amount, then words or a sum to be finished, and nothing only a formula has.
  const isMoney = (content) => /^[\d.,]/.test(content) && !/[\\^_]/.test(content)
    && (hasWords(content) || content.endsWith("="));
  // "$ x $" and "$x = $": spaces within the dollars, as some write, but only around what is plainly a formula.
  const isSpacedFormula = (content, before) => {
    if (/[\\^_]/.test(content)) return !/(?<![\\a-zA-Z{])[a-z]{3,} [a-z]{2,}/.test(content);
    if (hasWords(content)) return false;
    if (/^\s/.test(content)) return !/\w/.test(before) && /\w/.test(content);
    return /[=<>]/.test(content) && !/^[\d.,]/.test(content);
  };

  // The end of the $…$ that opens at `start`: the next dollar that no backslash and no \text{…} hides; null for none.
  const inlineEnd = (text, start, braces) => {
    const pattern = /\\(?:text|mbox|textbf|textrm|boxed|fbox)\{|\\[^]|\$|\n[ \t]*\n/g;
    pattern.lastIndex = start + 1;
    for (let match = pattern.exec(text); match !== null; match = pattern.exec(text)) {
      if (match[0] === "$") return match.index;
      if (match[0][0] === "\n" || match.index - start > LONGEST_INLINE) return null;
      const close = match[0].endsWith("{") ? braces.get(match.index + match[0].length - 1) : undefined;
      if (close !== undefined && close - match.index < LONGEST_WORDS) pattern.lastIndex = close + 1;
    }
    return null;
  };
  const isInline = (text, start, end) => {
    const content = text.slice(start + 1, end);
    if (content === "\\$") return true;
    if (content.length === 0 || content.length > LONGEST_INLINE || /[0-9]/.test(text[end + 1] ?? "")) return false;
    if (/^\s|\s$/.test(content)) return isSpacedFormula(content, text[start - 1] ?? "");
    return !isMoney(content);
  };

  // A text as a list of {prose} and {source, tex, display}; joined, prose and sources are the text again.
  const split = (text, { most = Infinity } = {}) => {
    if (!/[$\\]/.test(text)) return text === "" ? [] : [{ prose: text }];
    const braces = matchingBraces(text);
    const environments = matchingEnvironments(text);
    const closings = new Map(["\\)", "\\]", "$$"].map((pattern) => [pattern, searcher(text, pattern)]));

    const between = (start, close, display) => {
      const end = closings.get(close)(start + 2);
      if (end === Infinity || end - start > LONGEST_DISPLAY) return null;
      const tex = text.slice(start + 2, end);
      return tex.trim() === "" ? null : { start, end: end + 2, tex, display };
    };
    const dollars = (start, length) => {
      if (length > 2) return null;
      if (length === 2) return between(start, "$$", true);
      const end = inlineEnd(text, start, braces);
      if (end === null || !isInline(text, start, end)) return null;
      return { start, end: end + 1, tex: text.slice(start + 1, end), display: false };
    };
    const environment = (start) => {
      const match = environments.get(start);
      if (match === undefined || match.end - start > LONGEST_DISPLAY) return null;
      if (!MathEnvironments.displays(match.name)) return null;
      return { start, end: match.end, tex: text.slice(start, match.end), display: true };
    };
    const box = (start, brace) => {
      const close = braces.get(brace);
      if (close === undefined || close - start > LONGEST_INLINE) return null;
      return { start, end: close + 1, tex: text.slice(start, close + 1), display: false };
    };

    const segments = [];
    let written = 0;
    let formulas = 0;
    const pattern = /\$+|\\begin\{|\\(?:boxed|fbox)\s{0,4}\{|\\[^]/g;
    for (let match = pattern.exec(text); match !== null && formulas < most; match = pattern.exec(text)) {
      const { 0: found, index } = match;
      let formula = null;
      if (found[0] === "$") formula = dollars(index, found.length);
      else if (found === "\\(") formula = between(index, "\\)", false);
      else if (found === "\\[") formula = between(index, "\\]", true);
      else if (found === "\\begin{") formula = environment(index);
      else if (found.endsWith("{") && found.length > 2) formula = box(index, index + found.length - 1);
      if (formula === null) continue;
      if (formula.start > written) segments.push({ prose: text.slice(written, formula.start) });
      segments.push({ source: text.slice(formula.start, formula.end), tex: formula.tex, display: formula.display });
      written = formula.end;
      formulas += 1;
      pattern.lastIndex = formula.end;
    }
    if (written < text.length) segments.push({ prose: text.slice(written) });
    return segments;
  };

  return { split };
})();
