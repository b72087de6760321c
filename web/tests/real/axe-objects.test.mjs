/** The lists and pages of objects with the data of a running gateway, in both themes: axe without a finding. */
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

test('axe_finds_nothing_on_object_pages', { skip }, () => check(chromium.context, [
  'routes', 'routes/new', 'routes/axe', 'routes/axe?tab=history', 'routes/axe?tab=used-by', 'services/axe', 'upstreams', 'upstreams/axe?tab=form',
]));
