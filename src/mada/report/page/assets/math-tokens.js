// A formula's source as a list of tokens. Every character of the source is in exactly one token.
const MathTokens = (() => {
  "use strict";

  const PATTERN = /\\(begin|end)[ \t]*\{([A-Za-z]+\*?)\}|\\([A-Za-z]+|[^])|([ \t\r\n\u00a0]+)|([{}^_&$'~])|([^])/gu;

  // At most `limit` tokens, or null: a formula that long is no formula that anybody reads.
  const tokenize = (source, limit) => {
    const tokens = [];
    for (const match of source.matchAll(PATTERN)) {
      if (tokens.length >= limit) return null;
      const [whole, boundary, environment, command, space, special] = match;
      if (boundary !== undefined) tokens.push({ type: boundary, text: environment, source: whole });
      else if (command !== undefined) tokens.push({ type: "command", text: command, source: whole });
      else if (space !== undefined) tokens.push({ type: "space", text: " ", source: whole });
      else if (special !== undefined) tokens.push({ type: special, text: special, source: whole });
      else tokens.push({ type: "character", text: whole, source: whole });
    }
    return tokens;
  };

  return { tokenize };
})();
