/**
 * A stand-in for the Admin listener: serves the built dashboard under the real policy and answers its endpoints from
 * fixed data with a fixed clock. Screenshots, accessibility checks and walks run against it when no instance is given.
 *
 *     node tests/stand-in/server.mjs [PORT]        # the admin key is "admin", the viewer key is "viewer"
 */
import { randomBytes } from 'node:crypto';
import { existsSync, readFileSync, statSync } from 'node:fs';
import { createServer } from 'node:http';
import { extname, join, normalize } from 'node:path';
import { fileURLToPath } from 'node:url';
import { brotliDecompressSync } from 'node:zlib';
import { makeState, NOW_MS } from './data.mjs';
import { handle as handleLive } from './live.mjs';
import { handle as handleObjects } from './objects.mjs';

/** The built pages; WEIR_DIST names another folder. */
const DIST = process.env.WEIR_DIST ?? fileURLToPath(new URL('../../dist', import.meta.url));
const TYPES = {
  '.html': 'text/html; charset=utf-8', '.js': 'text/javascript', '.css': 'text/css', '.svg': 'image/svg+xml',
};
/** Longest request body, in bytes: a resources file of the tests is far smaller. */
const MAX_BODY = 32 << 20;

function policy(nonce) {
  return `default-src 'none'; script-src 'self'; style-src 'self' 'nonce-${nonce}'; img-src 'self' data:; font-src 'self'; `
    + "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
}

function serveFile(path, response) {
  const file = normalize(join(DIST, path.replace(/^\/ui\/?/, '')));
  // Identifiers of objects may hold dots, so only the folder of assets has files.
  const wantsFile = path.startsWith('/ui/assets/');
  // Texts are stored as Brotli (scripts/stored.mjs).
  const brotli = `${file}.br`;
  // A folder that was built but not compressed has the plain files.
  const stored = existsSync(brotli) ? brotli : file;
  const isAsset = wantsFile && file.startsWith(join(DIST, 'assets')) && extname(file) !== '.br'
    && existsSync(stored) && statSync(stored).isFile();
  if (wantsFile && !isAsset) {
    response.writeHead(404).end();
    return;
  }
  const nonce = randomBytes(16).toString('base64');
  const headers = {
    'Content-Security-Policy': policy(nonce),
    'X-Content-Type-Options': 'nosniff',
    'Referrer-Policy': 'no-referrer',
    'Cross-Origin-Opener-Policy': 'same-origin',
    'Cross-Origin-Resource-Policy': 'same-origin',
  };
  if (isAsset) {
    response.writeHead(200, { ...headers, 'Content-Type': TYPES[extname(file)] ?? 'application/octet-stream', 'Cache-Control': 'public, max-age=31536000, immutable' });
    const bytes = readFileSync(stored);
    response.end(stored === brotli ? brotliDecompressSync(bytes) : bytes);
    return;
  }
  const html = readFileSync(join(DIST, 'index.html'), 'utf8').replaceAll('%NONCE%', nonce);
  response.writeHead(200, { ...headers, 'Content-Type': TYPES['.html'], 'Cache-Control': 'no-store' });
  response.end(html);
}

async function readBody(request) {
  const parts = [];
  let size = 0;
  for await (const part of request) {
    size += part.length;
    if (size > MAX_BODY) throw new Error('the body is too large');
    parts.push(part);
  }
  return Buffer.concat(parts).toString('utf8');
}

/** Starts the stand-in; `state` may be changed by a test while it runs. */
export async function start({ port = 0, state = makeState() } = {}) {
  const open = new Set();
  const server = createServer((request, response) => {
    answer(request, response).catch((error) => {
      if (!response.headersSent) response.writeHead(500, { 'Content-Type': 'application/json' });
      response.end(JSON.stringify({ error_msg: String(error) }));
    });
  });

  async function answer(request, response) {
    const url = new URL(request.url, 'http://stand-in');
    if (state.refuseConnections) {
      request.socket.destroy();
      return;
    }
    if (!url.pathname.startsWith('/apisix/admin')) {
      if (url.pathname === '/ui' || url.pathname.startsWith('/ui/')) serveFile(url.pathname, response);
      else response.writeHead(404).end();
      return;
    }
    const key = request.headers['x-api-key'];
    const role = key === state.keys.admin ? 'admin' : key === state.keys.viewer ? 'viewer' : null;
    const path = decodeURI(url.pathname.slice('/apisix/admin/'.length));
    const json = (status, body, headers = {}) => {
      response.writeHead(status, { 'Content-Type': 'application/json', 'X-Weir-Revision': String(state.revision), ...headers });
      response.end(body === undefined ? '' : JSON.stringify(body));
    };
    if (role === null) {
      json(401, { error_msg: 'failed to check token' });
      return;
    }
    const isQuestion = /^weir\/(explain|plan)$|^schema\/validate\//.test(path);
    if (role === 'viewer' && request.method !== 'GET' && !isQuestion) {
      json(401, { error_msg: 'this key may only read' });
      return;
    }
    const text = request.method === 'GET' ? '' : await readBody(request);
    const call = { method: request.method, path, query: url.searchParams, headers: request.headers, text, role, state };
    state.calls.push(`${request.method} ${path}${url.search}`);
    const stream = await handleLive(call, response, open);
    if (stream === 'stream') return;
    const found = stream ?? (await handleObjects(call));
    if (!found) {
      json(404, { error_msg: `no such endpoint: ${path}` });
      return;
    }
    json(found.status ?? 200, found.body, found.headers);
  }

  await new Promise((resolve) => server.listen(port, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    key: state.keys.admin,
    viewerKey: state.keys.viewer,
    nowMs: NOW_MS,
    state,
    close: () =>
      new Promise((resolve) => {
        for (const response of open) response.end();
        server.close(resolve);
        server.closeAllConnections();
      }),
  };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { url, state } = await start({ port: Number(process.argv[2] ?? 0) });
  state.live = true;
  console.log(`${url}/ui/  (keys: ${state.keys.admin}, ${state.keys.viewer})`);
}
