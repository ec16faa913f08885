// Searching for words: at once in questions and answers, which the index has, or chunk by chunk in everything said.
const Search = (() => {
  const folded = (text) => text.toLowerCase();

  function create(archive) {
    const { index, columns } = archive;
    const questions = index.problems.map(([, problem, question]) => folded(`${problem} ${question}`));
    const answers = index.answers.map(folded);
    let current = 0;

    // A test for debates whose question, problem, verdict or answers have the words.
    function inIndex(words) {
      const wanted = folded(words.trim());
      if (wanted === "") return () => true;
      const inQuestion = questions.map((question) => question.includes(wanted));
      const inAnswer = answers.map((answer) => answer.includes(wanted));
      const isAnswered = (place) => place !== null && inAnswer[place];
      return (number) =>
        inQuestion[columns.problem[number]] ||
        isAnswered(columns.verdict[number]) ||
        columns.answers[number].some(isAnswered);
    }

    // Search all bodies in the background; `report(found, searched)` is called now and then, and not after `cancel`.
    async function inEverything(words, report) {
      const mine = (current += 1);
      const wanted = folded(words.trim());
      const found = new Set();
      let reported = performance.now();
      for (let start = 0; start < archive.count; start += index.chunk) {
        const bodies = await archive.unpack(start / index.chunk);
        if (mine !== current) return;
        bodies.forEach((body, place) => {
          if (isIn(body, wanted)) found.add(start + place);
        });
        const searched = Math.min(start + index.chunk, archive.count);
        if (performance.now() - reported > 250 || searched === archive.count) {
          report(found, searched);
          reported = performance.now();
          // Keys and scrolling come first.
          await new Promise((resolve) => setTimeout(resolve));
          if (mine !== current) return;
        }
      }
    }

    function cancel() {
      current += 1;
    }

    return { inIndex, inEverything, cancel };
  }

  function isIn(body, wanted) {
    const answers = body.rounds.flatMap(({ turns }) => turns.map(({ answer }) => answer ?? ""));
    return (
      body.said.some((_, place) => folded(Archive.text(body, place)).includes(wanted)) ||
      [body.reference, ...answers].some((answer) => folded(answer).includes(wanted))
    );
  }

  return { create };
})();
