/* Ranks what the manual's search finds: first headings with all that was asked for, then pages with its
   words, then the developer's book, and last the pages that only list (command line, changelog, decisions). */
var Scorer = {
  score: ([page, title, anchor, descr, score, file, kind]) => {
    if (/^(cli|changelog|adr\/)/.test(page)) return score - 100;
    const whole = kind === "title" ? 20 : 0;
    const book4 = /^(promise|how-it-works|rules|fault-model|proof|contract|architecture|workflows|developing)/;
    return score + whole - (book4.test(page) ? 6 : 0);
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
