/** The pages on a phone with the data of a running gateway, in both themes: axe without a finding. */
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

test('axe_finds_nothing_on_a_phone', { skip }, () => check(chromium.context, [
  'overview', 'traffic', 'traffic?only=kept', 'explain?url=http://walk.example/axe/x', 'routes', 'routes/axe', 'upstreams/axe?tab=endpoints', 'upstreams/axe?tab=topology', 'changes', 'plugins',
], { width: 390, height: 844 }));
