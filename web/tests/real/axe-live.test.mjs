/** The live pages with the data of a running gateway, in both themes: axe without a finding. */
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

test('axe_finds_nothing_on_live_pages', { skip }, () => check(chromium.context, [
  'overview', 'overview?top=endpoints', 'overview?top=causes', 'traffic', 'traffic?only=kept', 'explain?url=http://walk.example/axe/x', 'explain?url=http://walk.example/none', 'laboratory',
  'upstreams/axe?tab=endpoints', 'upstreams/axe?tab=topology', 'changes', 'faults',
]));
