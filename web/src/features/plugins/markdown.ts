/** Reads Markdown into blocks of plain values. Nothing of it becomes HTML; the page draws the blocks as elements. */

export type Inline =
  | { kind: 'text'; text: string }
  | { kind: 'code'; text: string }
  | { kind: 'strong' | 'em'; parts: Inline[] }
  | { kind: 'link'; to: string; parts: Inline[] };

export type Block =
  | { kind: 'heading'; level: number; parts: Inline[] }
  | { kind: 'text'; parts: Inline[] }
  | { kind: 'code'; text: string; language: string }
  | { kind: 'list'; ordered: boolean; items: Inline[][] }
  | { kind: 'table'; head: Inline[][]; rows: Inline[][][] };

/** Longest text that is read, in characters. */
const MOST = 500_000;
/** Deepest nesting of emphasis and links. */
const MOST_DEPTH = 4;

/** The blocks of a text. */
export function readMarkdown(text: string): Block[] {
  const lines = text.slice(0, MOST).split(/\r?\n/);
  const blocks: Block[] = [];
  let at = 0;
  const line = () => lines[at] ?? '';
  while (at < lines.length) {
    if (line().trim() === '') {
      at += 1;
      continue;
    }
    const fence = /^\s*(```+|~~~+)\s*([\w+-]*)/.exec(line());
    if (fence) {
      const close = fence[1] as string;
      const body: string[] = [];
      for (at += 1; at < lines.length && !line().trim().startsWith(close); at += 1) body.push(line());
      at += 1;
      blocks.push({ kind: 'code', text: body.join('\n'), language: fence[2] ?? '' });
      continue;
    }
    const heading = /^(#{1,6})\s+(.*?)\s*#*$/.exec(line());
    if (heading) {
      blocks.push({ kind: 'heading', level: (heading[1] as string).length, parts: inline(heading[2] as string) });
      at += 1;
      continue;
    }
    if (/^\s*\|/.test(line()) && /^\s*\|?[\s:|-]*-[\s:|-]*$/.test(lines[at + 1] ?? '')) {
      const head = cells(line());
      const rows: Inline[][][] = [];
      for (at += 2; at < lines.length && /^\s*\|/.test(line()); at += 1) rows.push(cells(line()));
      blocks.push({ kind: 'table', head, rows });
      continue;
    }
    const marker = /^\s*([-*+]|\d+[.)])\s+/;
    if (marker.test(line())) {
      const ordered = /^\s*\d/.test(line());
      const items: string[] = [];
      for (; at < lines.length && line().trim() !== ''; at += 1) {
        if (marker.test(line())) items.push(line().replace(marker, ''));
        else items[items.length - 1] += ` ${line().trim()}`;
      }
      blocks.push({ kind: 'list', ordered, items: items.map((item) => inline(item)) });
      continue;
    }
    const body: string[] = [];
    for (; at < lines.length && line().trim() !== '' && !/^(#{1,6}\s|\s*(```|~~~|\|))/.test(line()); at += 1) body.push(line().trim());
    if (body.length === 0) {
      body.push(line());
      at += 1;
    }
    blocks.push({ kind: 'text', parts: inline(body.join(' ')) });
  }
  return blocks;
}

function cells(row: string): Inline[][] {
  return row.trim().replace(/^\||\|$/g, '').split(/(?<!\\)\|/).map((cell) => inline(cell.trim().replace(/\\\|/g, '|')));
}

/** Whether an address may be a link: only https, so that neither scripts nor plain HTTP are reached from here. */
export function isSafe(address: string): boolean {
  return /^https:\/\/[^\s"'<>]+$/.test(address);
}

/** The parts of a line. A link to anything but https is its text. */
export function inline(text: string, depth = 0): Inline[] {
  const parts: Inline[] = [];
  const plain = (more: string) => {
    const last = parts.at(-1);
    if (last?.kind === 'text') last.text += more;
    else if (more !== '') parts.push({ kind: 'text', text: more });
  };
  const pattern = /(`+)(.+?)\1(?!`)|\*\*(.+?)\*\*|(?<![\w*])[*_](?!\s)([^*_]+?)[*_](?!\w)|\[([^\]]*)\]\(((?:[^()\s]|\([^()\s]*\))*)(?:\s+"[^"]*")?\)|\\([\\`*_[\]|<>#])/g;
  let end = 0;
  for (const match of text.matchAll(pattern)) {
    plain(text.slice(end, match.index));
    end = match.index + match[0].length;
    const [, , code, strong, em, label, address, escaped] = match;
    if (code !== undefined) parts.push({ kind: 'code', text: code.trim() || code });
    else if (escaped !== undefined) plain(escaped);
    else if (depth >= MOST_DEPTH) plain(match[0]);
    else if (strong !== undefined) parts.push({ kind: 'strong', parts: inline(strong, depth + 1) });
    else if (em !== undefined) parts.push({ kind: 'em', parts: inline(em, depth + 1) });
    else if (label !== undefined) {
      const inner = inline(label, depth + 1);
      if (address !== undefined && isSafe(address)) parts.push({ kind: 'link', to: address, parts: inner });
      else for (const part of inner) part.kind === 'text' ? plain(part.text) : parts.push(part);
    }
  }
  plain(text.slice(end));
  return parts;
}
