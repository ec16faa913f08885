// What the names of TeX mean: a character and the part it plays in a formula (its kind decides the space around it).
const MathSymbols = (() => {
  "use strict";

  // Maps, not objects: a formula may name \constructor or \__proto__.
  const symbols = new Map();
  const byCharacter = new Map();
  const define = (kind, pairs) => {
    const words = pairs.trim().split(/\s+/);
    for (let index = 0; index < words.length; index += 2) {
      const symbol = Object.freeze({ kind, text: words[index + 1] });
      symbols.set(words[index], symbol);
      if (!byCharacter.has(symbol.text)) byCharacter.set(symbol.text, symbol);
    }
  };

  define("letter", `
    alpha α beta β gamma γ delta δ epsilon ϵ varepsilon ε zeta ζ eta η theta θ vartheta ϑ iota ι kappa κ lambda λ
    mu μ nu ν xi ξ omicron ο pi π varpi ϖ rho ρ varrho ϱ sigma σ varsigma ς tau τ upsilon υ phi ϕ varphi φ chi χ
    psi ψ omega ω ell ℓ imath ı jmath ȷ partial ∂`);
  define("upright", `
    Gamma Γ Delta Δ Theta Θ Lambda Λ Xi Ξ Pi Π Sigma Σ Upsilon Υ Phi Φ Psi Ψ Omega Ω infty ∞ nabla ∇ hbar ℏ
    hslash ℏ Re ℜ Im ℑ aleph ℵ beth ℶ wp ℘ emptyset ∅ varnothing ∅ forall ∀ exists ∃ nexists ∄ top ⊤ bot ⊥ angle ∠
    measuredangle ∡ sphericalangle ∢ triangle △ triangledown ▽ square □ Box □ blacksquare ■ Diamond ◇ lozenge ◊
    diamondsuit ♢ heartsuit ♡ clubsuit ♣ spadesuit ♠ bigstar ★ degree ° prime ′ backprime ‵ dots … ldots … dotsc …
    cdots ⋯ dotsb ⋯ dotsm ⋯ dotsi ⋯ dotso … vdots ⋮ ddots ⋱ hdots … checkmark ✓ AA Å angstrom Å pounds £ euro €
    yen ¥ copyright © S § P ¶ dag † ddag ‡ qed □ QED □ Bbbk 𝕜 complement ∁ eth ð mho ℧ flat ♭ natural ♮ sharp ♯
    surd √ textdegree ° textdollar $ textbackslash \\ O Ø o ø ss ß ae æ AE Æ blacktriangle ▲ bigtriangleup △`);
  define("upright", String.raw`backslash \ % % $ $ # # & & _ _ lbrack [ rbrack ]`);
  define("binary", `
    pm ± mp ∓ times × div ÷ cdot ⋅ cdotp · centerdot ⋅ ast ∗ star ⋆ circ ∘ bullet ∙ cup ∪ cap ∩ sqcup ⊔ sqcap ⊓
    uplus ⊎ setminus ∖ smallsetminus ∖ wedge ∧ land ∧ vee ∨ lor ∨ oplus ⊕ ominus ⊖ otimes ⊗ oslash ⊘ odot ⊙
    diamond ⋄ dagger † ddagger ‡ amalg ⨿ wr ≀ ltimes ⋉ rtimes ⋊ bigcirc ◯ plus + minus − boxplus ⊞ boxtimes ⊠
    veebar ⊻ barwedge ⌅ triangleleft ◁ triangleright ▷`);
  define("relation", `
    le ≤ leq ≤ leqslant ⩽ ge ≥ geq ≥ geqslant ⩾ lt < gt > ne ≠ neq ≠ equal = approx ≈ equiv ≡ sim ∼ simeq ≃ cong ≅
    ncong ≇ asymp ≍ doteq ≐ propto ∝ ll ≪ gg ≫ lll ⋘ ggg ⋙ lesssim ≲ gtrsim ≳ prec ≺ succ ≻ preceq ⪯ succeq ⪰
    in ∈ notin ∉ ni ∋ owns ∋ subset ⊂ supset ⊃ subseteq ⊆ supseteq ⊇ subsetneq ⊊ supsetneq ⊋ nsubseteq ⊈ sqsubseteq ⊑
    mid ∣ nmid ∤ divides ∣ parallel ∥ nparallel ∦ perp ⟂ vdash ⊢ dashv ⊣ models ⊨ vDash ⊨ coloneqq ≔ triangleq ≜
    to → rightarrow → gets ← leftarrow ← leftrightarrow ↔ Rightarrow ⇒ Leftarrow ⇐ Leftrightarrow ⇔ implies ⟹
    impliedby ⟸ iff ⟺ Longrightarrow ⟹ Longleftarrow ⟸ Longleftrightarrow ⟺ longrightarrow ⟶ longleftarrow ⟵
    longleftrightarrow ⟷ mapsto ↦ longmapsto ⟼ hookrightarrow ↪ hookleftarrow ↩ uparrow ↑ downarrow ↓ updownarrow ↕
    Uparrow ⇑ Downarrow ⇓ nearrow ↗ searrow ↘ nwarrow ↖ swarrow ↙ rightleftharpoons ⇌ leftrightharpoons ⇋
    rightharpoonup ⇀ leftharpoonup ↼ rightrightarrows ⇉ leadsto ⇝ rightsquigarrow ⇝ nrightarrow ↛ nRightarrow ⇏
    therefore ∴ because ∵ colon : nless ≮ ngtr ≯ nleq ≰ ngeq ≱ lessgtr ≶ gtrless ≷ bowtie ⋈ approxeq ≊ backsim ∽
    vartriangle △ trianglelefteq ⊴ trianglerighteq ⊵ smile ⌣ frown ⌢ between ≬ eqsim ≂ curvearrowright ↷
    circlearrowleft ↺ circlearrowright ↻ upuparrows ⇈ downdownarrows ⇊ twoheadrightarrow ↠`);
  define("open", "langle ⟨ lfloor ⌊ lceil ⌈ lbrace { { { lvert | lVert ‖ lgroup ⟮ ulcorner ⌜ llcorner ⌞");
  define("close", "rangle ⟩ rfloor ⌋ rceil ⌉ rbrace } } } rvert | rVert ‖ rgroup ⟯ urcorner ⌝ lrcorner ⌟");
  define("bar", "vert | Vert ‖ | ‖");
  define("large", `
    sum ∑ prod ∏ coprod ∐ bigcup ⋃ bigcap ⋂ bigsqcup ⨆ biguplus ⨄ bigvee ⋁ bigwedge ⋀ bigoplus ⨁ bigotimes ⨂
    bigodot ⨀`);
  define("integral", "int ∫ iint ∬ iiint ∭ oint ∮ oiint ∯ smallint ∫ intop ∫");

  // What a single character of the source means where it is not simply a letter or a digit.
  const character = (kind, text) => Object.freeze({ kind, text });
  const characters = new Map([
    ["-", character("binary", "−")], ["+", character("binary", "+")], ["*", character("binary", "∗")],
    ["=", character("relation", "=")], ["<", character("relation", "<")], [">", character("relation", ">")],
    [":", character("relation", ":")], [",", character("punctuation", ",")], [";", character("punctuation", ";")],
    ["(", character("open", "(")], ["[", character("open", "[")], [")", character("close", ")")],
    ["]", character("close", "]")], ["!", character("close", "!")], ["|", character("bar", "|")],
    ["/", character("plain", "/")], [".", character("plain", ".")], ["?", character("plain", "?")],
    ["·", character("binary", "⋅")],
  ]);

  // Upright names; those in the second list carry their subscript below them in displayed formulas.
  const functions = new Set(`
    sin cos tan cot sec csc arcsin arccos arctan arccot arcsec arccsc sinh cosh tanh coth sech csch log ln lg exp
    deg dim hom ker arg tg ctg cosec arctg sgn`.trim().split(/\s+/));
  const limitFunctions = new Set("lim max min sup inf limsup liminf det gcd lcm Pr argmax argmin".split(" "));
  const spelling = new Map([
    ["limsup", "lim sup"], ["liminf", "lim inf"], ["argmax", "arg max"], ["argmin", "arg min"],
  ]);

  // Widths in em. MathML has no negative space, so \! only closes the gap after an operator (see the parser).
  const spaces = new Map([
    [",", 0.1667], ["thinspace", 0.1667], [":", 0.2222], [">", 0.2222], ["medspace", 0.2222], [";", 0.2778],
    ["thickspace", 0.2778], [" ", 0.25], ["\n", 0.25], ["\t", 0.25], ["space", 0.25], ["nobreakspace", 0.25],
    ["enspace", 0.5], ["quad", 1], ["qquad", 2],
  ]);

  const accents = new Map([
    ["hat", "^"], ["bar", "¯"], ["vec", "→"], ["dot", "˙"], ["ddot", "¨"], ["dddot", "⃛"], ["tilde", "~"],
    ["check", "ˇ"], ["breve", "˘"], ["acute", "´"], ["grave", "`"], ["mathring", "˚"],
  ]);
  const covers = new Map([
    ["overrightarrow", "→"], ["overleftarrow", "←"], ["overleftrightarrow", "↔"], ["widehat", "\u0302"],
    ["widetilde", "~"], ["overbrace", "⏞"], ["overparen", "⏜"], ["overarc", "⏜"], ["wideparen", "⏜"],
    ["overbracket", "⎴"],
  ]);
  const supports = new Map([["underbrace", "⏟"], ["underbracket", "⎵"], ["underrightarrow", "→"], ["underparen", "⏝"]]);

  // Browsers draw no mathvariant but "normal", so styled letters are the characters Unicode has for them.
  const range = (first, start, length) => ({ first: first.codePointAt(0), start, length });
  const exceptions = (letters, shown) => new Map([...letters].map((letter, index) => [letter, [...shown][index]]));
  const alphabets = new Map([
    ["bold", { ranges: [range("A", 0x1d400, 26), range("a", 0x1d41a, 26), range("0", 0x1d7ce, 10),
      range("Α", 0x1d6a8, 25), range("α", 0x1d6c2, 25)], exceptions: exceptions("∇∂ϵϑϕϱϖ", "𝛁𝛛𝛜𝛝𝛟𝛠𝛡") }],
    ["bold-italic", { ranges: [range("A", 0x1d468, 26), range("a", 0x1d482, 26), range("0", 0x1d7ce, 10),
      range("Α", 0x1d71c, 25), range("α", 0x1d736, 25)], exceptions: exceptions("∇∂ϵϑϕϱϖ", "𝜵𝝏𝝐𝝑𝝓𝝔𝝕") }],
    ["double-struck", { ranges: [range("A", 0x1d538, 26), range("a", 0x1d552, 26), range("0", 0x1d7d8, 10)],
      exceptions: exceptions("CHNPQRZ", "ℂℍℕℙℚℝℤ") }],
    ["script", { ranges: [range("A", 0x1d49c, 26), range("a", 0x1d4b6, 26)],
      exceptions: exceptions("BEFHILMRego", "ℬℰℱℋℐℒℳℛℯℊℴ") }],
    ["fraktur", { ranges: [range("A", 0x1d504, 26), range("a", 0x1d51e, 26)],
      exceptions: exceptions("CHIRZ", "ℭℌℑℜℨ") }],
    ["sans-serif", { ranges: [range("A", 0x1d5a0, 26), range("a", 0x1d5ba, 26), range("0", 0x1d7e2, 10)],
      exceptions: new Map() }],
    ["monospace", { ranges: [range("A", 0x1d670, 26), range("a", 0x1d68a, 26), range("0", 0x1d7f6, 10)],
      exceptions: new Map() }],
  ]);

  // The character that stands for a letter or digit in an alphabet; itself where the alphabet has none.
  const styled = (letter, variant) => {
    const alphabet = alphabets.get(variant);
    if (alphabet === undefined) return letter;
    if (alphabet.exceptions.has(letter)) return alphabet.exceptions.get(letter);
    const code = letter.codePointAt(0);
    const found = alphabet.ranges.find(({ first, length }) => code >= first && code < first + length);
    return found === undefined ? letter : String.fromCodePoint(found.start + code - found.first);
  };

  const negated = new Map([
    ["=", "≠"], ["∈", "∉"], ["∋", "∌"], ["<", "≮"], [">", "≯"], ["≤", "≰"], ["≥", "≱"], ["∣", "∤"], ["∥", "∦"],
    ["⊂", "⊄"], ["⊃", "⊅"], ["⊆", "⊈"], ["⊇", "⊉"], ["≡", "≢"], ["∼", "≁"], ["≃", "≄"], ["≅", "≇"], ["≈", "≉"],
    ["∃", "∄"], ["→", "↛"], ["⇒", "⇏"], ["⇔", "⇎"],
  ]);

  return {
    symbols, byCharacter, characters, functions, limitFunctions, spelling, spaces, accents, covers, supports, styled,
    negated,
  };
})();
