/** Overview, Traffic, Explain, endpoints and topology against the stand-in; against an instance the parts that need no fixed data. */
import assert from 'node:assert/strict';
import { request } from 'node:http';
import { after, before, test } from 'node:test';
import { browser, instance, isReal, openPage, settled, signIn } from './lib.mjs';

let target;
let chromium;
before(async () => {
  target = await instance();
  chromium = await browser();
});
after(async () => {
  await chromium.close();
  await target.close();
});

/** Sends a request to the proxy of a real instance; WEIR_PROXY is its address. */
function proxied(path) {
  return new Promise((resolve, reject) => {
    const [host, port] = process.env.WEIR_PROXY.split(':');
    request({ host, port, path, headers: { host: 'walk.example' } }, (response) => response.resume().on('end', () => resolve(response.statusCode))).on('error', reject).end();
  });
}
const hasProxy = Boolean(process.env.WEIR_PROXY);

test('overview_shows_figures_and_faults', { skip: isReal }, async () => {
  const { page, faults } = await openPage(chromium.context, target.url);
  await signIn(page, target);
  await settled(page);
  const figures = page.getByRole('region', { name: /Figures/ });
  for (const text of ['9,412', '0.24', '52.3', '388', '1.32', '86']) await figures.getByText(text, { exact: true }).first().waitFor();
  await page.getByText('2 of 6 endpoints of upstream orders are down.').waitFor();
  await page.getByRole('link', { name: 'Open upstream' }).click();
  await page.waitForURL('**/ui/upstreams/orders?tab=endpoints');
  assert.deepEqual(faults, []);
  await page.close();
});

test('overview_follows_samples', { skip: isReal }, async () => {
  const { page } = await openPage(chromium.context, target.url);
  await signIn(page, target);
  await settled(page);
  const sample = { seq: 999_999, end_ms: target.nowMs + 1000, now: { requests: 12_345, req_2xx: 12_000, req_3xx: 0, req_4xx: 0, req_5xx: 345, p50_us: 1, p90_us: 2, p99_us: 3, cpu: 3, rss: 1e8, in_flight: 1, connections: 2, cores: 4, memory_limit: null, log_lines_lost: 0, requests_total: 1 } };
  for (const { topic, send } of target.state.senders) if (topic === 'events') send('sample', sample);
  await page.getByText('12,345', { exact: true }).first().waitFor({ timeout: 10_000 });
  await page.close();
});

test('overview_follows_traffic', { skip: !isReal || !hasProxy }, async () => {
  const { page, faults } = await openPage(chromium.context, target.url);
  await signIn(page, target);
  await settled(page);
  for (let at = 0; at < 200; at += 1) await proxied(`/walk/${at}`);
  await page.waitForFunction(() => !['0', '–', undefined].includes(document.querySelector('.figure-value b')?.textContent), undefined, { timeout: 20_000 });
  assert.deepEqual(faults, []);
  await page.close();
});

test('attention_folds_after_four', { skip: isReal }, async () => {
  const before = target.state.attention;
  target.state.attention = Array.from({ length: 9 }, (_, at) => ({ severity: 'warn', what: 'certificate', title: `Certificate ${at} expires.`, detail: '', link: '/ssls' }));
  const { page } = await openPage(chromium.context, target.url);
  await signIn(page, target);
  await page.getByRole('button', { name: 'and 5 more' }).click();
  await page.getByText('Certificate 8 expires.').waitFor();
  target.state.attention = [];
  await page.reload();
  await page.getByText('Everything is in force: revision 4127 on 4 of 4 workers.').waitFor();
  target.state.attention = before;
  await page.close();
});

test('chart_values_are_in_a_table', { skip: isReal }, async () => {
  const { page } = await openPage(chromium.context, target.url);
  await signIn(page, target);
  await settled(page);
  const chart = page.getByRole('group', { name: /Requests a second by class/ });
  assert.ok((await chart.locator('table tr').count()) > 10);
  await chart.focus();
  await page.keyboard.press('ArrowLeft');
  await chart.locator('.chart-read').getByText(/2xx 8,/).waitFor();
  await page.close();
});

test('tap_shows_retry', { skip: isReal }, async () => {
  const { page, faults } = await openPage(chromium.context, target.url);
  await signIn(page, target, '/ui/traffic');
  await page.getByText('/checkout/7421/pay').click();
  const drawer = page.getByRole('complementary', { name: /Request POST/ });
  await drawer.getByText('The endpoint 10.0.4.18:8080 closed the connection before it answered').waitFor();
  await drawer.getByText('Attempt 1 · 10.0.4.17:8080').waitFor();
  await drawer.getByText('Attempt 2 · 10.0.4.18:8080').waitFor();
  assert.match(page.url(), /request=01J9ZK3W7T4C00/);
  await page.keyboard.press('Escape');
  await drawer.waitFor({ state: 'detached' });
  assert.ok(!page.url().includes('request='));
  assert.deepEqual(faults, []);
  await page.close();
});

test('tap_shows_requests', { skip: !isReal || !hasProxy }, async () => {
  const { page } = await openPage(chromium.context, target.url);
  await signIn(page, target, '/ui/traffic');
  await page.mouse.move(0, 0);
  await page.getByText(/\/s pass/).waitFor();
  await proxied('/walk-of-the-tap');
  await page.getByText('/walk-of-the-tap').first().waitFor();
  await page.close();
});

test('tap_ends_when_hidden', { skip: isReal }, async () => {
  const { page } = await openPage(chromium.context, target.url, { clock: false });
  await signIn(page, target, '/ui/traffic');
  await page.getByText('/checkout/7421/pay').waitFor();
  const open = target.state.tapsOpen;
  assert.ok(open >= 1);
  await page.evaluate(() => {
    Object.defineProperty(document, 'hidden', { configurable: true, get: () => true });
    document.dispatchEvent(new Event('visibilitychange'));
  });
  await page.waitForTimeout(11_000);
  assert.equal(target.state.tapsOpen, open - 1, 'the stream ends 10 s after the page is hidden');
  await page.close();
});

test('failure_kept_without_reader', { skip: isReal }, async () => {
  const requests = target.state.requests;
  target.state.requests = [];
  target.state.failures = [{ ...requests[0], id: 'kept-before-0001', path: '/happened/before' }];
  const { page } = await openPage(chromium.context, target.url);
  await signIn(page, target, '/ui/traffic?request=kept-before-0001');
  await page.getByRole('complementary', { name: /Request POST \/happened\/before/ }).waitFor();
  target.state.requests = requests;
  target.state.failures = null;
  await page.close();
});

test('query_error_has_caret', async () => {
  const { page } = await openPage(chromium.context, target.url);
  await signIn(page, target, '/ui/traffic');
  await page.getByLabel('Filter requests').fill('status:>=500 nosuchfield:1');
  const error = page.locator('.query-error');
  await error.waitFor();
  const lines = (await error.locator('pre').textContent()).split('\n');
  assert.equal(lines[1].indexOf('^'), 13);
  await error.getByText(/Expected: .*status/).waitFor();
  await page.close();
});

test('suggestions_follow_the_field', { skip: isReal }, async () => {
  const { page } = await openPage(chromium.context, target.url);
  await signIn(page, target, '/ui/traffic');
  await page.getByText('/checkout/7421/pay').waitFor();
  const field = page.getByLabel('Filter requests');
  await field.click();
  await field.pressSequentially('cau');
  await page.getByRole('option', { name: 'cause:' }).waitFor();
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Enter');
  await field.pressSequentially('origin');
  assert.equal(await field.inputValue(), 'cause:origin');
  // The half-typed filter is in force then and matches no request.
  await page.waitForURL(/q=cause:origin/);
  await page.getByRole('option', { name: 'cause:origin_closed' }).click();
  await page.waitForURL(/q=cause:origin_closed/);
  await page.close();
});

test('traffic_keys_move_and_open', { skip: isReal }, async () => {
  const { page } = await openPage(chromium.context, target.url);
  await signIn(page, target, '/ui/traffic');
  await page.getByText('/checkout/7421/pay').waitFor();
  await page.evaluate(() => document.activeElement?.blur());
  await page.keyboard.press('j');
  await page.keyboard.press('j');
  await page.keyboard.press('Enter');
  await page.getByRole('complementary', { name: /Request GET \/shop\/books/ }).waitFor();
  await page.keyboard.press('e');
  await page.waitForURL('**/ui/explain?**');
  await page.close();
});

test('explain_pasted_curl', { skip: isReal }, async () => {
  const { page, faults } = await openPage(chromium.context, target.url);
  await signIn(page, target, '/ui/explain');
  await page.getByRole('button', { name: 'Paste curl' }).click();
  await page.getByRole('textbox', { name: 'curl line' }).fill(`curl 'https://shop.example/checkout/7421/pay' \\\n  -H 'Authorization: Bearer abc' -b 'a=1' --data '{"x":1}'`);
  await page.getByRole('button', { name: 'Explain this line' }).click();
  await page.getByRole('region', { name: 'Route' }).getByText('checkout', { exact: true }).first().waitFor();
  assert.deepEqual(target.state.lastQuestion, {
    method: 'POST', url: 'https://shop.example/checkout/7421/pay', body_bytes: 7,
    headers: [['Authorization', 'Bearer abc'], ['Cookie', 'a=1'], ['Content-Type', 'application/x-www-form-urlencoded']],
  });
  await page.getByText('methods do not hold POST').waitFor();
  await page.getByText('it would ask http://auth/check').waitFor();
  assert.ok(!page.url().includes('abc'));
  assert.deepEqual(faults, []);
  await page.close();
});

test('explain_without_route_names_losers', async () => {
  const { page } = await openPage(chromium.context, target.url);
  await signIn(page, target, '/ui/explain?url=https://shop.example/nothing-of-this-walk');
  await page.getByText('No route matches; the answer is 404.').waitFor();
  await page.close();
});

test('topology_marks_dead_endpoint', { skip: isReal }, async () => {
  const { page, faults } = await openPage(chromium.context, target.url);
  await signIn(page, target, '/ui/upstreams/orders?tab=topology');
  const dead = page.getByRole('img', { name: /10\.0\.4\.17:8080 .*, down/ });
  await dead.waitFor();
  assert.ok((await page.locator('.topology-line[data-failing=true]').count()) >= 2);
  await page.getByRole('img', { name: /^orders 2,572 a second, up/ }).focus();
  await page.keyboard.press('ArrowRight');
  assert.match(await page.evaluate(() => document.activeElement?.getAttribute('aria-label') ?? ''), /10\.0\.4\./);
  assert.deepEqual(faults, []);
  await page.close();
});

test('killed_endpoint_turns_its_mark', { skip: isReal }, async () => {
  const { page } = await openPage(chromium.context, target.url);
  await signIn(page, target, '/ui/upstreams/orders?tab=endpoints');
  const row = page.getByRole('row', { name: /10\.0\.4\.12:8080/ });
  await row.getByText('up', { exact: true }).waitFor();
  const node = target.state.upstreams[0].nodes[0];
  Object.assign(node, { state: 'unhealthy', unhealthy: { since: '2026-11-24T14:02:11Z', why: 'tcp' } });
  for (const { topic, send } of target.state.senders) if (topic === 'events') send('health', { upstream: 'orders', node: node.address, state: 'unhealthy' });
  await row.getByText(/down since/).waitFor({ timeout: 10_000 });
  Object.assign(node, { state: 'usable', unhealthy: undefined });
  await page.close();
});

test('script_tags_stay_text', { skip: isReal }, async () => {
  const bad = '<script>window.bad=1</script><img src=x onerror=window.bad=1>';
  const kept = { requests: target.state.requests, attention: target.state.attention, top: target.state.top };
  target.state.requests = [{ ...kept.requests[0], id: 'script-tags-0001', path: `/${bad}`, host: bad, route: bad, route_name: bad, consumer: bad, cause: bad, detail: bad, client: bad, spans: [{ name: bad, group: 'gateway', at_us: 0, us: 5, failed: false, detail: bad }] }];
  target.state.attention = [{ severity: 'err', what: bad, title: bad, detail: bad, link: `/routes/${encodeURIComponent(bad)}` }];
  target.state.top = () => [{ id: bad, name: bad, match: bad, rps: 1, share: 1, p4xx: 0, p5xx: 0, p99_us: 1, bytes: 1 }];
  const { page, faults } = await openPage(chromium.context, target.url);
  await signIn(page, target);
  await settled(page);
  await page.goto(`${target.url}/ui/traffic?request=script-tags-0001`);
  await page.getByRole('complementary').waitFor();
  await page.goto(`${target.url}/ui/explain?url=${encodeURIComponent(`https://shop.example/checkout/${bad}`)}`);
  await settled(page);
  await page.goto(`${target.url}/ui/routes/${encodeURIComponent(bad)}`);
  await page.waitForTimeout(500);
  assert.equal(await page.evaluate(() => window.bad), undefined);
  assert.deepEqual(faults.filter((fault) => !fault.startsWith('foreign')), []);
  Object.assign(target.state, kept);
  await page.close();
});

test('lab_report_opens_in_the_browser', async () => {
  const { page, faults } = await openPage(chromium.context, target.url);
  await signIn(page, target, '/ui/laboratory');
  await page.locator('input[type=file]').setInputFiles(new URL('../../../lab/results/0.1.0-turns.json', import.meta.url).pathname);
  await page.getByText('Median of all').waitFor();
  await page.getByRole('button', { name: '21 bytes, kept connections, 64 at once' }).click();
  await page.getByText('Smallest to largest round').waitFor();
  await page.locator('input[type=file]').setInputFiles({ name: 'x.json', mimeType: 'application/json', buffer: Buffer.from('{}') });
  await page.getByText('no result of "weir lab run"').waitFor();
  assert.deepEqual(faults, []);
  await page.close();
});
