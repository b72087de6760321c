/** The nearest known word to a mistyped one. */

/** Words longer than this are not compared, so that hostile names cost nothing. */
const LONGEST = 64;

/** The known word with the fewest edits, at most a third of its length; none if none is near. */
export function nearest(word: string, known: readonly string[]): string | undefined {
  if (word.length > LONGEST) return undefined;
  let best: string | undefined;
  let least = Number.POSITIVE_INFINITY;
  for (const candidate of known) {
    const edits = distance(word.toLowerCase(), candidate.toLowerCase());
    if (edits < least && edits <= Math.max(1, Math.floor(candidate.length / 3))) [best, least] = [candidate, edits];
  }
  return best;
}

/** The number of insertions, removals, replacements and swaps of neighbours between two words. */
export function distance(a: string, b: string): number {
  const rows: number[][] = [Array.from({ length: b.length + 1 }, (_, index) => index)];
  for (let i = 1; i <= a.length; i += 1) {
    const row = [i];
    for (let j = 1; j <= b.length; j += 1) {
      const cost = a[i - 1] === b[j - 1] ? 0 : 1;
      let least = Math.min((rows[i - 1]?.[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1, (rows[i - 1]?.[j - 1] ?? 0) + cost);
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) {
        least = Math.min(least, (rows[i - 2]?.[j - 2] ?? 0) + 1);
      }
      row.push(least);
    }
    rows.push(row);
  }
  return rows[a.length]?.[b.length] ?? 0;
}
