/** Rich objects of a real instance are opened, looked at and saved without an edit: nothing may change. */
import assert from 'node:assert/strict';
import { before, describe, it } from 'node:test';
import { visit } from '../e2e/lib.mjs';
import { ORIGIN, SKIP, put, revision, stored, walks } from './object-parts.mjs';

const CHECKS = {
  active: { type: 'http', http_path: '/health', timeout: 2, concurrency: 3, req_headers: ['X-Probe: weir'], healthy: { interval: 30, successes: 2, http_statuses: [200, 204] }, unhealthy: { interval: 30, http_failures: 3, tcp_failures: 2, timeouts: 4, http_statuses: [500, 503] } },
  passive: { type: 'http', healthy: { successes: 3, http_statuses: [200, 201] }, unhealthy: { http_failures: 4, tcp_failures: 2, timeouts: 5, http_statuses: [500, 502] } },
};
const NODES = [{ host: ORIGIN.split(':')[0], port: Number(ORIGIN.split(':')[1]), weight: 3, priority: 0, metadata: { zone: 'a' } }];
/** Objects that earlier dashboards damaged when they were saved: nothing of them is usual. */
const OBJECTS = {
  'upstreams/rich': { type: 'chash', hash_on: 'header', key: 'X-User', nodes: NODES, checks: CHECKS, retries: 2, retry_timeout: 1.5, timeout: { connect: 0.5, send: 6, read: 7.25 }, keepalive_pool: { size: 12, idle_timeout: 30, requests: 500 }, pass_host: 'rewrite', upstream_host: 'inside.example', scheme: 'http', labels: { team: 'a', 'cost/center': '7' }, desc: 'rich <b>text</b>', name: 'Rich' },
  'upstreams/map': { type: 'roundrobin', nodes: { [ORIGIN]: 1 } },
  'services/rich': { upstream: { type: 'least_conn', nodes: NODES, checks: CHECKS, retries: 0 }, hosts: ['a.example', '*.b.example'], plugins: { 'request-id': { _meta: { disable: true, priority: 17 } } }, enable_websocket: true, labels: { team: 'b' } },
  'routes/rich': { uris: ['/rich/*', '/also/:id'], methods: ['GET', 'POST'], hosts: ['rich.example'], remote_addrs: ['127.0.0.1', '10.0.0.0/8'], priority: 7, vars: [['arg_a', '==', '1'], ['OR', ['http_b', '~~', '^x.*'], ['cookie_c', 'in', ['1', '2']]]], timeout: { connect: 3, send: 4, read: 5 }, status: 1, labels: { a: 'b', version: '2.1' }, upstream_id: 'rich', plugins: { 'limit-count': { count: 5, time_window: 60, key_type: 'var_combination', key: '$remote_addr $http_x', rejected_code: 429, _meta: { filter: [['arg_limit', '==', 'yes']], error_response: { message: 'slow' } } }, 'proxy-rewrite': { regex_uri: ['^/rich/(.*)', '/$1'], headers: { set: { 'X-A': '1' }, add: { 'X-B': '2' }, remove: ['X-C'] } }, 'traffic-split': { rules: [{ match: [{ vars: [['arg_v', '==', '2']] }], weighted_upstreams: [{ upstream_id: 'map', weight: 1 }, { weight: 9 }] }] } } },
  'routes/inline': { uri: '/inline', upstream: { type: 'roundrobin', nodes: { [ORIGIN]: 5 }, checks: { active: { http_path: '/h', healthy: { interval: 60, successes: 1 } } } }, plugins: {} },
  'plugin_configs/rich': { plugins: { cors: { allow_origins: 'https://a.example,https://b.example', allow_methods: 'GET,POST', allow_headers: 'x-a', expose_headers: 'x-b', allow_credential: true }, 'response-rewrite': { body: 'eyJhIjoxfQ==', body_base64: true, headers: { set: { 'X-Server': 'weir' } } } }, labels: { kind: 'web' }, desc: 'two' },
  'consumer_groups/rich': { plugins: { 'limit-req': { rate: 5.5, burst: 2, key: 'consumer_name', nodelay: true } }, desc: 'group' },
  'consumers/rich': { username: 'rich', group_id: 'rich', plugins: { 'key-auth': { key: 'key-of-rich-000' }, 'basic-auth': { username: 'rich', password: 'secret' }, 'limit-count': { count: 1, time_window: 1, key: 'remote_addr' } }, labels: { plan: 'gold' } },
  'consumers/rich/credentials/one': { plugins: { 'jwt-auth': { key: 'jwt-of-rich', secret: 'secret-of-the-token-of-rich-0000' } }, desc: 'token' },
  'global_rules/rich': { plugins: { 'ip-restriction': { blacklist: ['203.0.113.7', '2001:db8::/32'], message: 'no' } } },
  'plugin_metadata/file-logger': { log_format: { host: '$host', '@timestamp': '$time_iso8601', nested: { a: '$status' } } },
  'secrets/vault/rich': { uri: 'https://vault.example:8200', prefix: 'kv/weir', token: 'token-of-rich-00' },
  'protos/rich': { content: 'syntax = "proto3";\npackage a;\nmessage B { string c = 1; }\n', desc: 'one message' },
};

describe('rich objects', { skip: SKIP }, () => {
  const shared = walks();
  before(async () => {
    for (const [key, value] of Object.entries(OBJECTS)) await put(shared.target, key, value);
  });

  it('save_without_edit_changes_nothing', async () => {
    const before = new Map();
    for (const key of Object.keys(OBJECTS)) before.set(key, await stored(shared.target, key));
    const at = await revision(shared.target);
    const { page, done } = await shared.walk('/ui/faults');
    const writes = [];
    page.on('request', (request) => {
      if (request.method() !== 'GET') writes.push(`${request.method()} ${request.url()}`);
    });
    for (const key of Object.keys(OBJECTS)) {
      await visit(page, `/${key}?tab=form`);
      await page.getByRole('heading', { level: 1, name: key.split('/').at(-1) }).waitFor();
      await page.locator('.w-form').first().waitFor();
      await page.locator('.pane-source .cm-content').waitFor();
      // Opened parts build more of the form, which must not write into the document either.
      for (const fold of await page.locator('.w-fold-head[aria-expanded=false]').all()) if (await fold.isVisible()) await fold.click();
      await page.getByRole('radio', { name: 'YAML' }).or(page.getByRole('button', { name: 'YAML' })).first().click();
      await page.getByRole('radio', { name: 'JSON' }).or(page.getByRole('button', { name: 'JSON' })).first().click();
      await page.locator('.pane-source .cm-content').click();
      await page.keyboard.press('Control+s');
      assert.equal(await page.getByRole('region', { name: 'Unsaved changes' }).count(), 0, key);
      assert.equal(await page.getByRole('dialog').count(), 0, key);
    }
    assert.deepEqual(writes, []);
    assert.equal(await revision(shared.target), at);
    for (const [key, value] of before) assert.deepEqual(await stored(shared.target, key), value, key);
    await done();
  });
});
