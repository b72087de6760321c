/** The overview and the traffic of a running gateway: figures, failures, retries, the stream. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { browser } from '../e2e/lib.mjs';
import { admin, closingEndpoint, proxied, served, skip, target, until, walk } from './parts.mjs';

let chromium;
let broken;
before(async () => {
  if (skip) return;
  chromium = await browser();
  broken = await closingEndpoint();
  await admin('PUT', 'upstreams/live-good', { type: 'roundrobin', nodes: { [target.origin]: 1 } });
  await admin('PUT', 'upstreams/live-pair', { type: 'roundrobin', retries: 1, nodes: { [target.origin]: 1, [broken.address]: 1 } });
  await admin('PUT', 'upstreams/live-broken', { type: 'roundrobin', retries: 0, nodes: { [broken.address]: 1 } });
  await admin('PUT', 'routes/live-good', { name: 'live-good', uri: '/live/good/*', upstream_id: 'live-good' });
  await admin('PUT', 'routes/live-pair', { name: 'live-pair', uri: '/live/pair/*', upstream_id: 'live-pair' });
  await admin('PUT', 'routes/live-broken', { name: 'live-broken', uri: '/live/broken/*', upstream_id: 'live-broken' });
  await served('/live/good/first');
});
after(async () => {
  await chromium?.close();
  await broken?.close();
});

const figure = (page, name) => page.getByRole('region', { name: 'Figures' }).locator('.figure', { hasText: name }).locator('.figure-value b');

test('failure_kept_without_reader', { skip }, async () => {
  // No page is open yet, so that nothing but failures is recorded.
  assert.equal(await proxied('/live/broken/kept-without-reader'), 502);
  await proxied('/live/good/not-kept');
  const { page, done } = await walk(chromium.context, '/ui/traffic?only=kept');
  const row = page.getByRole('row', { name: /\/live\/broken\/kept-without-reader/ });
  await row.waitFor();
  assert.equal(await page.getByRole('row', { name: /not-kept/ }).count(), 0);
  await row.click();
  const drawer = page.getByRole('complementary', { name: /Request GET \/live\/broken\/kept-without-reader/ });
  await drawer.getByText(`The endpoint ${broken.address} closed the connection before it answered`).waitFor();
  await drawer.getByText(`Attempt 1 · ${broken.address}`).waitFor();
  assert.match(page.url(), /request=[0-9a-f]+/);
  await page.reload();
  await drawer.waitFor();
  await done();
});

test('overview_follows_traffic', { skip }, async () => {
  const { page, done } = await walk(chromium.context, '/ui/overview');
  await page.getByRole('region', { name: 'Figures' }).waitFor();
  const requests = figure(page, 'Requests');
  const value = async (locator) => Number((await locator.textContent()).replace(/[^0-9.]/g, '') || 0);
  for (let at = 0; at < 60; at += 1) await proxied(`/live/good/${at}`);
  const good = await until(async () => (await value(requests)) >= 3, 5000, 'the requests are on the overview');
  for (let at = 0; at < 20; at += 1) assert.equal(await proxied(`/live/broken/${at}`), 502);
  const burst = await until(async () => (await value(figure(page, '5xx'))) >= 10, 5000, 'the 502 burst is on the overview');
  await page.getByRole('tab', { name: 'Causes' }).click();
  await page.getByRole('link', { name: 'origin_closed' }).waitFor();
  await page.getByRole('tab', { name: 'Top routes' }).click();
  await page.getByRole('row', { name: /live-broken .*100 %/ }).waitFor();
  console.log(`overview: requests seen after ${good} ms, the 502 burst after ${burst} ms`);
  await done();
});

test('tap_shows_retry', { skip }, async () => {
  const { page, done } = await walk(chromium.context, '/ui/traffic?q=path:/live/pair/*');
  await page.getByText('No request matches; 0 a second pass.').waitFor();
  // One of two follows the closing endpoint first; its retry is answered by the other.
  for (let at = 0; at < 4; at += 1) assert.equal(await proxied(`/live/pair/${at}`), 200);
  const twice = page.locator('[role=row]', { hasText: '×2' });
  await twice.first().waitFor();
  await twice.first().click();
  const drawer = page.getByRole('complementary', { name: /Request GET \/live\/pair/ });
  await drawer.getByText(`Attempt 1 · ${broken.address}`).waitFor();
  await drawer.getByText(`Attempt 2 · ${target.origin}`).waitFor();
  await drawer.getByText(/at the second attempt/).waitFor();
  await drawer.getByText('origin_closed').first().waitFor();
  await done();
});

test('tap_ends_when_hidden', { skip }, async () => {
  const { page, done } = await walk(chromium.context, '/ui/traffic');
  await page.getByText('No request passes now.').waitFor();
  const open = [];
  const closed = [];
  page.on('request', (request) => request.url().includes('/weir/tap') && open.push(request));
  page.on('requestfailed', (request) => request.url().includes('/weir/tap') && closed.push(request));
  await page.evaluate(() => {
    Object.defineProperty(document, 'hidden', { configurable: true, get: () => true });
    document.dispatchEvent(new Event('visibilitychange'));
  });
  await until(async () => closed.length === 1, 13_000, 'the stream ends 10 s after the page is hidden');
  assert.equal(open.length, 0, 'and none begins');
  await page.evaluate(() => {
    Object.defineProperty(document, 'hidden', { configurable: true, get: () => false });
    document.dispatchEvent(new Event('visibilitychange'));
  });
  await until(async () => open.length === 1, 3000, 'the stream begins again when the page is shown');
  await until(async () => {
    await proxied('/live/good/after-hidden');
    return page.getByText('/live/good/after-hidden').first().isVisible();
  }, 5000, 'and shows requests');
  await done();
});
