/** What the source editor needs of a syntax. */
import { json } from '@codemirror/lang-json';
import type { LanguageSupport } from '@codemirror/language';
import type { Json } from './json';
import { parseJson, renderJson, type Parsed } from './jsonText';
import { locateJson, type Range } from './locate';

export interface SyntaxTools {
  parse: (text: string) => Parsed;
  render: (document: Json) => string;
  locate: (text: string) => Map<string, Range>;
  language: () => LanguageSupport;
}

export const jsonTools: SyntaxTools = { parse: parseJson, render: renderJson, locate: locateJson, language: json };
