/** The lists of kinds and the plugins with the data of a running gateway, in both themes: axe without a finding. */
import { after, before, test } from 'node:test';
import { check, fill } from './axe.mjs';
import { browser } from '../e2e/lib.mjs';
import { skip } from './parts.mjs';

let chromium;
let broken;
before(async () => {
  if (skip) return;
  chromium = await browser();
  broken = await fill();
});
after(async () => {
  await chromium?.close();
  await broken?.close();
});

test('axe_finds_nothing_on_lists', { skip }, () => check(chromium.context, [
  'services', 'ssls', 'consumers', 'consumers/axe', 'secrets', 'plugins', 'plugins/limit-count', 'global_rules',
]));
