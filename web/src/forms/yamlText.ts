/** YAML texts of a document, read, written and located; a chunk of its own, fetched when YAML is chosen. */
import { yaml } from '@codemirror/lang-yaml';
import { isMap, isScalar, isSeq, parseDocument, stringify, visit, type Node as YamlNode, type Pair } from 'yaml';
import { markYaml, unmarkYaml } from '../api/exact';
import { escapeToken, type Json } from './json';
import type { Parsed } from './jsonText';
import { MAX_DEPTH, type Range } from './locate';
import type { SyntaxTools } from './syntax';

/** The largest nesting by aliases that is expanded; more would be an attack by a small text. */
const MAX_ALIASES = 100;

export function renderYaml(document: Json): string {
  return unmarkYaml(stringify(document, { lineWidth: 0 }));
}

export function parseYaml(text: string): Parsed {
  const read = parseDocument(text, { uniqueKeys: true, prettyErrors: false });
  const mistake = read.errors[0];
  if (mistake) return { error: `${mistake.message}.`, at: mistake.pos[0] };
  if (read.contents === null) return { error: 'The text is empty; write {} for an object without fields.', at: 0 };
  try {
    // Numbers that JSON can write keep their digits; other forms, such as 0x10, become what they mean.
    visit(read, { Scalar: (key, node) => {
      if (key !== 'key' || typeof node.value === 'string') node.value = markYaml(node.value, node.source);
    } });
    const document = read.toJS({ maxAliasCount: MAX_ALIASES }) as unknown;
    // The Admin API takes JSON, so that dates and other YAML types become what JSON makes of them.
    return { document: JSON.parse(JSON.stringify(document)) as Json };
  } catch (cause) {
    return { error: cause instanceof Error ? cause.message : 'The text cannot be read.', at: 0 };
  }
}

/** Every pointer of a text with its range. */
export function locateYaml(text: string): Map<string, Range> {
  const places = new Map<string, Range>();
  const walk = (node: unknown, pointer: string, from: number | undefined, depth: number) => {
    const range = (node as YamlNode | null)?.range;
    const start = from ?? range?.[0];
    if (start === undefined || depth > MAX_DEPTH) return;
    places.set(pointer, { from: start, to: range?.[1] ?? start });
    if (isMap(node)) {
      for (const pair of node.items as Pair[]) {
        const key = isScalar(pair.key) ? pair.key : undefined;
        if (key) walk(pair.value, `${pointer}/${escapeToken(String(key.value))}`, key.range?.[0], depth + 1);
      }
    } else if (isSeq(node)) {
      node.items.forEach((item, index) => walk(item, `${pointer}/${index}`, undefined, depth + 1));
    }
  };
  walk(parseDocument(text).contents, '', 0, 0);
  return places;
}

export const yamlTools: SyntaxTools = { parse: parseYaml, render: renderYaml, locate: locateYaml, language: yaml };
