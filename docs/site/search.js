/** Search over the sections of all pages. Without imports: site/build.ts puts it in front of site.js. */

const stopWords = new Set(
  'a about an and any are as at be by can could did do does for from get give had happen happens has have how i if in is it its long me mean means must my no not of on one or our out should since so some that the their them then there these they this to up was we what when where which who whom why will with without would you your'.split(
    ' ',
  ),
);
const endings = ['ies', 'ing', 'ed', 'es', 's', 'e', 'y'];

/** The words of a query that say something, without their ending: "revoked keys" finds "revoke a key". */
function wordsOf(query) {
  const words = query
    .toLowerCase()
    .split(/\s+/)
    .map((word) => word.replace(/^[^\p{L}\p{N}_/]+|[^\p{L}\p{N}_/]+$/gu, ''))
    .filter(Boolean);
  const telling = words.filter((word) => !stopWords.has(word));
  return [...new Set(telling.length > 0 ? telling : words)].map(stemOf);
}

function stemOf(word) {
  const ending = endings.find((one) => word.endsWith(one) && word.length - one.length >= 3);
  return ending ? word.slice(0, -ending.length) : word;
}

/** How many words of the text begin with this one. */
function countOf(text, word) {
  let count = 0;
  for (let at = text.indexOf(word); at !== -1; at = text.indexOf(word, at + word.length))
    if (at === 0 || !/[\p{L}\p{N}]/u.test(text.charAt(at - 1))) count++;
  return count;
}

const lowered = new WeakMap();

/** Heading, title and text of each section in lower case, which is made once. */
function textsOf(sections) {
  const texts =
    lowered.get(sections) ??
    sections.map(({ heading, page, text }) => [heading, page, text].map((one) => one.toLowerCase()));
  lowered.set(sections, texts);
  return texts;
}

/** Sections that have most of the words, best first: rare words, headings and titles count more. */
export function search(sections, query) {
  const words = wordsOf(query);
  const texts = textsOf(sections);
  const counts = words.map((word) => texts.map((parts) => parts.map((text) => countOf(text, word))));
  const weights = counts.map((each) => {
    const having = each.filter((parts) => parts.some((count) => count > 0)).length;
    return Math.log(1 + sections.length / Math.max(having, 10));
  });
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  const scored = sections.map((section, at) => {
    let [score, found, named] = [0, 0, 0];
    for (const [index, weight] of weights.entries()) {
      const [inHeading, inTitle, inText] = counts[index][at];
      const density = inText / (inText + 0.5 + section.text.length / 4000);
      score += weight * (density + (inHeading > 0 ? 2 : 0) + (inTitle > 0 ? 1 : 0));
      if (inHeading + inTitle + inText > 0) found += weight;
      if (inHeading > 0) named += words[index].length;
    }
    // A heading of the words and little else.
    score += (3 * total * named) / Math.max(section.heading.length, words.join(' ').length);
    // Readers look for how, then for fields, then for why.
    const isDetail = /\/decisions\/|\/glossary|#object-/.test(section.path);
    return { section, score: isDetail ? score / 2 : score, found };
  });
  return scored
    .filter(({ found }) => found > 0 && found >= 0.5 * total)
    .sort((a, b) => b.score - a.score)
    .map(({ section }) => section);
}
