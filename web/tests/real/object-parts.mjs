/** Parts of the walks through objects against a real instance: calls of its Admin API, and a signed-in page. */
import assert from 'node:assert/strict';
import { after, afterEach, before } from 'node:test';
import { browser, instance, openPage, signIn, visit } from '../e2e/lib.mjs';

/** The address of an echo origin, `HOST:PORT`. */
export const ORIGIN = process.env.WEIR_ORIGIN ?? '127.0.0.1:1980';
/** The walks need an instance that they may write to. */
export const SKIP = process.env.WEIR_URL ? false : 'WEIR_URL names no instance';

/** A call of the Admin API: its status, its headers and its body, read as JSON. */
export async function call(target, method, path, body, headers = {}) {
  const response = await fetch(`${target.url}/apisix/admin/${path}`, {
    method,
    headers: { 'X-API-KEY': target.key, 'Content-Type': 'application/json', ...headers },
    body: body === undefined ? undefined : typeof body === 'string' ? body : JSON.stringify(body),
  });
  const text = await response.text();
  return { status: response.status, headers: response.headers, data: text === '' ? null : JSON.parse(text) };
}

/** Writes an object and fails if the instance refuses it. */
export async function put(target, key, value) {
  const answer = await call(target, 'PUT', key, value);
  assert.ok(answer.status < 300, `${key}: ${answer.status} ${JSON.stringify(answer.data)}`);
  return answer;
}

/** The stored form of an object, without what the instance adds; `undefined` if there is none. */
export async function stored(target, key) {
  const { status, data } = await call(target, 'GET', key);
  if (status === 404) return undefined;
  const { create_time: _made, update_time: _changed, ...value } = data.value;
  return value;
}

/** The revision that is in force. */
export async function revision(target) {
  return (await call(target, 'GET', 'weir/versions?limit=1')).data.revision;
}

/** One browser for a file of walks; `walk` opens a signed-in page and `done` checks that nothing went wrong in it. */
export function walks() {
  const shared = { target: null, opened: null };
  const kept = new Set();
  before(async () => {
    shared.target = await instance();
    shared.opened = await browser();
  });
  // A page that a failed walk left open would keep connections that later walks need.
  afterEach(async () => {
    for (const page of shared.opened.context.pages().slice(1)) if (!kept.has(page)) await page.close();
  });
  after(async () => {
    await shared.opened?.close();
  });
  shared.walk = async (path, options = {}) => {
    const { page, faults } = await openPage(shared.opened.context, shared.target.url, options);
    page.setDefaultTimeout(60_000);
    if (options.keep) kept.add(page);
    await signIn(page, shared.target, path);
    return {
      page,
      faults,
      to: (next) => visit(page, next),
      done: async () => {
        await page.close();
        assert.deepEqual(faults, []);
      },
    };
  };
  return shared;
}

/** The input of a field by its JSON pointer. */
export function field(page, pointer, prefix = 'field') {
  return page.locator(`[id="${prefix}${pointer}"]`);
}

/** Replaces the text of the source pane as a paste does. */
export async function writeSource(page, text) {
  const pane = page.locator('.pane-source .cm-content');
  await pane.click();
  await page.keyboard.press('Control+a');
  await pane.evaluate((element, pasted) => {
    const clipboardData = new DataTransfer();
    clipboardData.setData('text/plain', pasted);
    element.dispatchEvent(new ClipboardEvent('paste', { clipboardData, bubbles: true, cancelable: true }));
  }, text);
}

/** Reviews and saves what is edited, and waits for the word of it. */
export async function saveAll(page) {
  const main = page.getByRole('button', { name: /Review and save/ });
  await main.waitFor();
  await page.waitForFunction(() => ![...document.querySelectorAll('.save-bar .btn-main')].some((one) => one.disabled));
  await main.click();
  const dialog = page.getByRole('dialog');
  await dialog.waitFor();
  await dialog.getByRole('button', { name: /^Save as r|^Save$|^Create/ }).click();
  await dialog.waitFor({ state: 'detached' });
}
