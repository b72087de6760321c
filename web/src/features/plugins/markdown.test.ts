import { describe, expect, it } from 'vitest';
import { inline, isSafe, readMarkdown } from './markdown';

describe('markdown', () => {
  it('blocks_are_read', () => {
    const blocks = readMarkdown('# Title\n\nText with `code`\nand more.\n\n- one\n- two\n\n```json\n{ "a": 1 }\n```\n\n| a | b |\n|---|---|\n| 1 | `2` |\n');
    expect(blocks.map((block) => block.kind)).toEqual(['heading', 'text', 'list', 'code', 'table']);
    expect(blocks[3]).toEqual({ kind: 'code', text: '{ "a": 1 }', language: 'json' });
  });
  it('only_https_becomes_a_link', () => {
    expect(isSafe('https://weir.example/a')).toBe(true);
    for (const bad of ['javascript:alert(1)', 'http://a.example', 'data:text/html,x', '//a.example', 'https://a" onclick="x', 'JavaScript:alert(1)']) expect(isSafe(bad)).toBe(false);
    expect(inline('[x](javascript:alert(1))').every((part) => part.kind === 'text')).toBe(true);
    expect(inline('see [the guide](https://a.example/x)')).toEqual([{ kind: 'text', text: 'see ' }, { kind: 'link', to: 'https://a.example/x', parts: [{ kind: 'text', text: 'the guide' }] }]);
  });
  it('html_stays_text', () => {
    expect(inline('<script>alert(1)</script>')).toEqual([{ kind: 'text', text: '<script>alert(1)</script>' }]);
  });
  it('hostile_texts_end', () => {
    for (const text of ['`'.repeat(5000), '['.repeat(5000), '*'.repeat(5000), '|'.repeat(2000), `${'**a'.repeat(2000)}`]) readMarkdown(text);
    expect(readMarkdown('```never closed')).toEqual([{ kind: 'code', text: '', language: '' }].map((block) => ({ ...block, language: 'never' })));
  });
});
