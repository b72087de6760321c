/** Documents keep the digits of their numbers through YAML, too. */
import { describe, expect, it } from 'vitest';
import { readExact, writeExact } from '../api/exact';
import type { Json } from './json';
import { parseYaml, renderYaml } from './yamlText';

describe('numbers in YAML', () => {
  it.each([
    '{"a":9007199254740993,"b":[1.0,1e3,-0,2.5,7],"c":"9007199254740993","d":"1.0"}', '[12345678901234567890]', '{"a":"\uE0001.0","b":"\uE000\uE000","c":"x\uE0005"}',
    '{"a":"line\\n1.0\\nmore","b":{}}',
  ])('%s', (text) => {
    const document = readExact(text) as Json;
    const read = parseYaml(renderYaml(document));
    expect(read.error).toBeUndefined();
    expect(writeExact(read.document)).toBe(text);
  });
  it('digits are written plainly', () => {
    expect(renderYaml(readExact('{"a":9007199254740993,"b":[1.50]}') as Json)).toBe('a: 9007199254740993\nb:\n  - 1.50\n');
  });
  it('other forms become what they mean', () => {
    expect(writeExact(parseYaml('a: 0x10\nb: .5').document)).toBe('{"a":16,"b":0.5}');
  });
});
