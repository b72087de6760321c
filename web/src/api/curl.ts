/** Reads a curl command line as a shell would, and takes method, URL, headers and body size from it. */

export interface CurlRequest {
  method: string;
  url: string;
  headers: [string, string][];
  /** Size of the body in bytes; null if a file is its source. */
  bodyBytes: number | null;
}

/** Longest line that is read. */
const MAX_LENGTH = 200_000;

/** Splits a command line into words: quotes, `$'…'`, escapes and line continuations. */
export function words(text: string): string[] {
  const out: string[] = [];
  let word = '';
  let open = false;
  let at = 0;
  const end = Math.min(text.length, MAX_LENGTH);
  while (at < end) {
    const char = text[at]!;
    if (char === '\\') {
      const next = text[at + 1];
      if (next === '\r' && text[at + 2] === '\n') at += 3;
      else if (next === '\n') at += 2;
      else {
        word += next ?? '';
        open = true;
        at += 2;
      }
    } else if (char === '^' && /^\^\r?\n/.test(text.slice(at, at + 3))) {
      at += text[at + 1] === '\r' ? 3 : 2; // a continued line of the Windows shell
    } else if (char === "'") {
      const close = text.indexOf("'", at + 1);
      if (close < 0) throw new Error('a single quote is not closed');
      word += text.slice(at + 1, close);
      open = true;
      at = close + 1;
    } else if (char === '$' && text[at + 1] === "'") {
      const [value, next] = ansi(text, at + 2);
      word += value;
      open = true;
      at = next;
    } else if (char === '"') {
      const [value, next] = double(text, at + 1);
      word += value;
      open = true;
      at = next;
    } else if (/\s/.test(char)) {
      if (open) out.push(word);
      word = '';
      open = false;
      at += 1;
    } else {
      word += char;
      open = true;
      at += 1;
    }
  }
  if (open) out.push(word);
  return out;
}

function double(text: string, from: number): [string, number] {
  let value = '';
  let at = from;
  while (at < text.length && text[at] !== '"') {
    if (text[at] === '\\' && /["\\$`]/.test(text[at + 1] ?? '')) {
      value += text[at + 1];
      at += 2;
    } else if (text[at] === '\\' && text[at + 1] === '\n') at += 2;
    else {
      value += text[at];
      at += 1;
    }
  }
  if (at >= text.length) throw new Error('a double quote is not closed');
  return [value, at + 1];
}

const ANSI: Record<string, string> = { n: '\n', r: '\r', t: '\t', "'": "'", '"': '"', '\\': '\\', '?': '?', a: '\x07', b: '\b', f: '\f', v: '\v', e: '\x1b' };

function ansi(text: string, from: number): [string, number] {
  let value = '';
  let at = from;
  while (at < text.length && text[at] !== "'") {
    if (text[at] !== '\\') {
      value += text[at];
      at += 1;
      continue;
    }
    const hex = /^(?:x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4}))/.exec(text.slice(at + 1, at + 6));
    if (hex) {
      value += String.fromCharCode(parseInt(hex[1] ?? hex[2]!, 16));
      at += 1 + hex[0].length;
    } else {
      value += ANSI[text[at + 1] ?? ''] ?? text[at + 1] ?? '';
      at += 2;
    }
  }
  if (at >= text.length) throw new Error("a $'…' text is not closed");
  return [value, at + 1];
}

/** Options with a value that change the request. */
const METHOD = new Set(['-X', '--request']);
const HEADER = new Set(['-H', '--header']);
const DATA = new Set(['-d', '--data', '--data-raw', '--data-ascii', '--data-binary', '--data-urlencode', '--json']);
/** Options with a value that do not matter to routing; their value must not be taken for the URL. */
const SKIPPED = new Set([
  '-o', '--output', '-m', '--max-time', '--connect-timeout', '-x', '--proxy', '--resolve', '--connect-to', '--cacert', '--cert', '--key', '-E',
  '-c', '--cookie-jar', '-w', '--write-out', '--retry', '-r', '--range', '--interface', '--limit-rate', '-T', '--upload-file', '-D', '--dump-header',
  '-K', '--config', '--ciphers', '--tls-max', '-F', '--form', '--form-string', '-y', '-Y', '-z', '-C', '--max-redirs', '--noproxy', '-U', '--proxy-user',
]);
/** Letters that take a value when several short options stand together (`-sXPOST`). */
const SHORT_VALUE = new Set('XHdAeubomxcwrTDKEFyYzCU'.split(''));

function base64(text: string): string {
  return btoa(String.fromCharCode(...new TextEncoder().encode(text)));
}

/** Single options: `-sSXPOST` becomes `-s`, `-S`, `-X`, `POST`; `--request=POST` is two words. */
function separate(args: string[]): string[] {
  const out: string[] = [];
  for (const arg of args) {
    if (/^--[a-z-]+=/.test(arg)) {
      const equals = arg.indexOf('=');
      out.push(arg.slice(0, equals), arg.slice(equals + 1));
    } else if (/^-[A-Za-z]./.test(arg)) {
      for (let at = 1; at < arg.length; at += 1) {
        out.push(`-${arg[at]}`);
        if (SHORT_VALUE.has(arg[at]!)) {
          if (at + 1 < arg.length) out.push(arg.slice(at + 1));
          break;
        }
      }
    } else out.push(arg);
  }
  return out;
}

/** Whether a text looks like a curl line. */
export function isCurl(text: string): boolean {
  return /^\s*(?:\$\s+)?curl(?:\.exe)?\s/.test(text);
}

/** Reads the line; throws with a sentence when there is no URL or a quote is open. */
export function parseCurl(text: string): CurlRequest {
  const args = separate(words(text.trim().replace(/^\$\s+/, '')).slice(1));
  let method: string | null = null;
  let url: string | null = null;
  let bodyBytes: number | null = 0;
  let hasBody = false;
  let asQuery = false;
  const data: string[] = [];
  const headers: [string, string][] = [];
  const has = (name: string) => headers.some(([each]) => each.toLowerCase() === name);
  for (let at = 0; at < args.length; at += 1) {
    const arg = args[at]!;
    const value = () => {
      at += 1;
      return args[at] ?? '';
    };
    if (METHOD.has(arg)) method = value().toUpperCase();
    else if (HEADER.has(arg)) {
      const line = value();
      const colon = line.indexOf(':');
      if (colon > 0 && line.slice(colon + 1).trim() !== '') headers.push([line.slice(0, colon).trim(), line.slice(colon + 1).trim()]);
      else if (line.endsWith(';')) headers.push([line.slice(0, -1).trim(), '']);
    } else if (DATA.has(arg)) {
      const body = value();
      hasBody = true;
      if (body.startsWith('@') && arg !== '--data-raw') bodyBytes = null;
      else data.push(body);
      if (arg === '--json') {
        if (!has('content-type')) headers.push(['Content-Type', 'application/json']);
        if (!has('accept')) headers.push(['Accept', 'application/json']);
      }
    } else if (arg === '-b' || arg === '--cookie') headers.push(['Cookie', value()]);
    else if (arg === '-A' || arg === '--user-agent') headers.push(['User-Agent', value()]);
    else if (arg === '-e' || arg === '--referer') headers.push(['Referer', value()]);
    else if (arg === '-u' || arg === '--user') headers.push(['Authorization', `Basic ${base64(value())}`]);
    else if (arg === '--oauth2-bearer') headers.push(['Authorization', `Bearer ${value()}`]);
    else if (arg === '-I' || arg === '--head') method ??= 'HEAD';
    else if (arg === '-G' || arg === '--get') asQuery = true;
    else if (arg === '--compressed') headers.push(['Accept-Encoding', 'deflate, gzip, br, zstd']);
    else if (arg === '--url') url ??= value();
    else if (SKIPPED.has(arg)) value();
    else if (!arg.startsWith('-')) url ??= arg;
  }
  if (url === null) throw new Error('the line has no URL');
  if (!/^[a-z][a-z0-9+.-]*:\/\//i.test(url)) url = `http://${url}`;
  const joined = data.join('&');
  if (asQuery && joined !== '') url += (url.includes('?') ? '&' : '?') + joined;
  else if (hasBody) {
    if (bodyBytes !== null) bodyBytes = new TextEncoder().encode(joined).length;
    if (!has('content-type')) headers.push(['Content-Type', 'application/x-www-form-urlencoded']);
    method ??= 'POST';
  }
  return { method: method ?? 'GET', url, headers, bodyBytes };
}

/** A text as one word of a shell. */
export function quote(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replace(/'/g, `'\\''`)}'`;
}

/** A curl line for a request, with one option a line. */
export function writeCurl(request: { method: string; url: string; headers?: [string, string][] }): string {
  const parts = [`curl ${request.method === 'GET' ? '' : `-X ${quote(request.method)} `}${quote(request.url)}`];
  for (const [name, value] of request.headers ?? []) parts.push(`-H ${quote(`${name}: ${value}`)}`);
  return parts.join(' \\\n  ');
}
