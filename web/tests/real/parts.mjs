/**
 * Parts of the walks against a running gateway: calls of its Admin API, requests through its proxy, an endpoint that fails on
 * purpose. WEIR_URL, WEIR_KEY, WEIR_VIEWER_KEY, WEIR_PROXY and WEIR_ORIGIN name the instance; without them the walks are skipped.
 */
import assert from 'node:assert/strict';
import { request } from 'node:http';
import { createServer } from 'node:net';
import { openPage, signIn } from '../e2e/lib.mjs';

export const target = {
  url: (process.env.WEIR_URL ?? '').replace(/\/$/, ''), key: process.env.WEIR_KEY ?? '', viewerKey: process.env.WEIR_VIEWER_KEY ?? '',
  proxy: process.env.WEIR_PROXY ?? '', origin: process.env.WEIR_ORIGIN ?? '',
};
/** Whether there is no instance to walk on. */
export const skip = target.url === '' || target.proxy === '' || target.origin === '' ? 'needs WEIR_URL, WEIR_PROXY and WEIR_ORIGIN' : false;

/** A call of the Admin API below `/apisix/admin/`; an answer of 400 or more fails. */
export async function admin(method, path, body) {
  const response = await fetch(`${target.url}/apisix/admin/${path}`, {
    method, headers: { 'x-api-key': target.key }, body: body === undefined ? undefined : JSON.stringify(body),
  });
  const text = await response.text();
  assert.ok(response.status < 400, `${method} ${path}: ${response.status} ${text}`);
  return text === '' ? null : JSON.parse(text);
}

/** Sends one request through the proxy on a connection of its own; answers with the status. */
export function proxied(path, { method = 'GET', headers = {} } = {}) {
  const [host, port] = target.proxy.split(':');
  return new Promise((resolve, reject) => {
    request({ host, port, path, method, headers: { host: 'walk.example', ...headers }, agent: false }, (response) => {
      response.resume().on('end', () => resolve(response.statusCode));
    }).on('error', reject).end();
  });
}

/** Asks `ask` each 50 ms until it answers something true; fails after `ms`. Answers with the time it took. */
export async function until(ask, ms, said) {
  const begin = performance.now();
  for (;;) {
    if (await ask()) return Math.round(performance.now() - begin);
    assert.ok(performance.now() - begin < ms, `not within ${ms} ms: ${said}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/** Waits until the proxy answers `path` with `status`: the workers have taken up the last write. */
export function served(path, status = 200, options = {}) {
  return until(async () => (await proxied(path, options)) === status, 5000, `${path} is answered ${status}`);
}

/** An endpoint that closes each connection once a request has come; `close` frees its port. */
export function closingEndpoint() {
  const open = new Set();
  const server = createServer((socket) => {
    open.add(socket);
    socket.on('data', () => socket.destroy());
    socket.on('error', () => undefined);
    socket.on('close', () => open.delete(socket));
  });
  return new Promise((resolve) => {
    server.listen(0, '127.0.0.1', () => resolve({
      address: `127.0.0.1:${server.address().port}`,
      close: () => new Promise((done) => {
        for (const socket of open) socket.destroy();
        server.close(done);
      }),
    }));
  });
}

/** A signed-in page at `path`; `done` closes it and fails on any fault of its console. */
export async function walk(context, path, { key = target.key, ...options } = {}) {
  const { page, faults } = await openPage(context, target.url, options);
  page.setDefaultTimeout(60_000);
  await signIn(page, { url: target.url, key }, path);
  return { page, faults, done: async () => {
    await page.close();
    assert.deepEqual(faults, []);
  } };
}
