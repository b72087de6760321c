import { describe, expect, it } from 'vitest';
import { isCurl, parseCurl, quote, words, writeCurl } from './curl';

describe('words of a shell', () => {
  it('keeps quoted spaces and joins pieces', () => {
    expect(words(`a 'b c' "d \\"e\\"" f'g'h`)).toEqual(['a', 'b c', 'd "e"', 'fgh']);
  });
  it('goes on over a continued line', () => {
    expect(words('curl \\\n  -H x:y \\\r\n  url')).toEqual(['curl', '-H', 'x:y', 'url']);
  });
  it("reads $'…' with escapes", () => {
    expect(words(`$'a\\nb\\u00e9\\''`)).toEqual(["a\nbé'"]);
  });
  it('keeps an empty quoted word', () => {
    expect(words(`a '' b`)).toEqual(['a', '', 'b']);
  });
  it('says that a quote is open', () => {
    expect(() => words(`curl 'x`)).toThrow('not closed');
  });
});

describe('curl lines', () => {
  it('takes method, headers and body size', () => {
    const line = `curl -sS -X PUT 'https://shop.example/a?b=c' -H 'Authorization: Bearer x' --data-raw '{"é":1}'`;
    expect(parseCurl(line)).toEqual({
      method: 'PUT', url: 'https://shop.example/a?b=c', bodyBytes: 8,
      headers: [['Authorization', 'Bearer x'], ['Content-Type', 'application/x-www-form-urlencoded']],
    });
  });
  it('posts when there is data', () => {
    expect(parseCurl('curl shop.example/a -d a=1 -d b=2')).toMatchObject({ method: 'POST', url: 'http://shop.example/a', bodyBytes: 7 });
  });
  it('puts data into the query with -G', () => {
    expect(parseCurl('curl -G http://a/b?x=1 -d q=2')).toMatchObject({ method: 'GET', url: 'http://a/b?x=1&q=2' });
  });
  it('reads cookies, user and joined options', () => {
    const { headers, method } = parseCurl(`curl -sXDELETE -b 'a=1; b=2' -u ana:pw --compressed http://a/`);
    expect(method).toBe('DELETE');
    expect(headers).toEqual([['Cookie', 'a=1; b=2'], ['Authorization', 'Basic YW5hOnB3'], ['Accept-Encoding', 'deflate, gzip, br, zstd']]);
  });
  it('does not take the value of an option for the URL', () => {
    expect(parseCurl('curl -o out.txt --max-time 5 http://a/b').url).toBe('http://a/b');
  });
  it('does not read files', () => {
    expect(parseCurl('curl --data-binary @body.json http://a/').bodyBytes).toBeNull();
  });
  it('drops headers without a value as curl does', () => {
    expect(parseCurl(`curl -H 'Accept:' -H 'X-Empty;' http://a/`).headers).toEqual([['X-Empty', '']]);
  });
  it('says that the URL is missing', () => {
    expect(() => parseCurl('curl -X POST')).toThrow('no URL');
  });
  it('knows a curl line', () => {
    expect(isCurl('$ curl http://a')).toBe(true);
    expect(isCurl('curling http://a')).toBe(false);
  });
  it('writes what it reads', () => {
    const request = { method: 'POST', url: `https://a/b?c='d'&e`, headers: [['X-A', `it's`]] as [string, string][] };
    expect(parseCurl(writeCurl(request))).toMatchObject(request);
    expect(quote('a b')).toBe(`'a b'`);
  });
});
