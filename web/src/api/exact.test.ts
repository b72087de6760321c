/** Numbers keep their digits between reading and writing. */
import { describe, expect, it } from 'vitest';
import { approximate, isExact, numberOf, plainText, readExact, writeExact } from './exact';

describe('exact numbers', () => {
  it.each([
    '9007199254740993', '-9007199254740993', '12345678901234567890', '1.0', '1e3', '1E400', '-0', '0.10000000000000000555',
    '{"vars":[["http_x","==",9007199254740993]],"a":1.50,"b":"9007199254740993"}', '[1,2.5,1e21]', '{"1.0":1.0}',
    '"\uE0001.0"', '"\uE000\uE0001.0"', '"\uE000text"', '{"\uE0007":7}', '"say \\"1.0\\", and 2.0"', '[]', '{}', '"\\\\"', '[1.0,"\\\\",1.0]',
  ])('%s is written as it was read', (text) => {
    expect(writeExact(readExact(text))).toBe(text);
  });
  it.each([['1', 1], ['0', 0], ['-7', -7], ['2.5', 2.5], ['9007199254740991', 9007199254740991]])('%s stays a number', (text, value) => {
    expect(readExact(text)).toBe(value);
  });
  it.each(['', '{', '01', '1.', '+1', 'NaN', '"a', '[1,]'])('%s is a SyntaxError', (text) => {
    expect(() => readExact(text)).toThrow(SyntaxError);
  });
  it('escaped marks of a sender are texts', () => {
    const read = readExact('["\\ue0005","\\uE0001.0",1.0]') as string[];
    expect(read.map(isExact)).toEqual([false, false, true]);
    expect(JSON.parse(writeExact(read))).toEqual(['\uE0005', '\uE0001.0', 1]);
  });
  it('digits are shown without the mark', () => {
    expect(plainText(numberOf('12345678901234567890') as string)).toBe('12345678901234567890');
    expect(numberOf('12x')).toBeUndefined();
    expect(plainText('text')).toBe('text');
  });
  it('numbers are near where they are compared', () => {
    expect(approximate(readExact('{"a":[1.0,"x",12345678901234567890]}'))).toEqual({ a: [1, 'x', 12345678901234567000] });
  });
});
