/**
 * Parts of the walks: the instance (from WEIR_URL and WEIR_KEY, otherwise the stand-in), the browser, the sign-in, and
 * a watch that collects errors of the console and violations of the policy.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { chromium } from 'playwright-core';
import { makeState, NOW_MS } from '../stand-in/data.mjs';
import { start } from '../stand-in/server.mjs';

const ARGS = [
  '--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
  '--disable-component-update', '--disable-sync', '--force-color-profile=srgb', '--font-render-hinting=none',
];

/** Whether the walks run against a real instance. */
export const isReal = Boolean(process.env.WEIR_URL);

/** The instance: `url`, `key`, `viewerKey`, and `state` when it is the stand-in. */
export async function instance(change) {
  if (isReal) {
    return {
      url: process.env.WEIR_URL.replace(/\/$/, ''), key: process.env.WEIR_KEY ?? '', viewerKey: process.env.WEIR_VIEWER_KEY ?? null,
      state: null, close: async () => undefined,
    };
  }
  const state = makeState();
  change?.(state);
  return start({ state });
}

/** A browser with a fresh profile; `close` removes the profile. */
export async function browser() {
  const profile = mkdtempSync(join(tmpdir(), 'weir-ui-'));
  const context = await chromium.launchPersistentContext(profile, {
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ARGS, headless: true, locale: 'en-US', timezoneId: 'UTC',
    viewport: { width: 1440, height: 900 }, reducedMotion: 'reduce',
  });
  return {
    context,
    close: async () => {
      await context.close();
      rmSync(profile, { recursive: true, force: true });
    },
  };
}

/** A page with `faults`: errors of its console, failures of its scripts, violations of the policy, calls to other hosts. */
export async function openPage(context, base, { width = 1440, height = 900, scheme = 'light', clock = !isReal } = {}) {
  const page = await context.newPage();
  page.setDefaultTimeout(60_000);
  await page.setViewportSize({ width, height });
  await page.emulateMedia({ colorScheme: scheme, reducedMotion: 'reduce' });
  if (clock) await page.clock.setFixedTime(NOW_MS);
  const faults = [];
  page.on('console', (message) => {
    // The browser reports each answer of 400 or more; the pages show these themselves.
    if (message.type() === 'error' && !/Failed to load resource/.test(message.text())) faults.push(`console: ${message.text()}`);
  });
  page.on('pageerror', (error) => faults.push(`script: ${error.message}`));
  page.on('request', (request) => {
    if (!request.url().startsWith(base) && !/^(data|blob|about):/.test(request.url())) faults.push(`foreign: ${request.url()}`);
  });
  await page.addInitScript(() => {
    document.addEventListener('securitypolicyviolation', (event) => {
      console.error(`policy: ${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}:${event.lineNumber}`);
    });
  });
  return { page, faults };
}

/** Signs in through the form and waits for the frame. */
export async function signIn(page, { url, key }, path = '/ui/overview') {
  await page.goto(url + path);
  await page.getByLabel('Admin key', { exact: true }).fill(key);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.locator('#main').waitFor();
}

/** Goes to a page below `/ui` inside of the application, without loading it anew. */
export async function visit(page, path) {
  await page.evaluate((to) => {
    window.history.pushState({}, '', to);
    window.dispatchEvent(new PopStateEvent('popstate'));
  }, `/ui${path}`);
}

/** As `visit`, and waits for the heading of that page: the old page stays until the code of the new one has come. */
export async function visitPage(page, path) {
  const isOther = await page.evaluate((to) => new URL(to, window.location.href).pathname !== window.location.pathname, `/ui${path}`);
  await page.evaluate(() => {
    const heading = document.querySelector('main h1');
    if (heading) heading.dataset.left = heading.textContent;
  });
  await visit(page, path);
  if (isOther) {
    await page.waitForFunction(() => {
      const heading = document.querySelector('main h1');
      return heading !== null && heading.dataset.left !== heading.textContent;
    });
  }
}

/** Waits until nothing loads any more. */
export async function settled(page) {
  const isStill = () => document.querySelector('main h1') !== null && document.querySelector('main [aria-busy=true]') === null;
  await page.waitForFunction(isStill);
  await page.waitForTimeout(150);
  await page.waitForFunction(isStill);
  await page.evaluate(() => document.fonts.ready);
  await page.waitForTimeout(250);
}
