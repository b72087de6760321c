/** The live pages with the data of a running gateway, in both themes: axe without a finding. */
import { findsNothing } from './axe.mjs';

findsNothing('axe_finds_nothing_on_live_pages', [
  'overview', 'overview?top=endpoints', 'overview?top=causes', 'traffic', 'traffic?only=kept', 'explain?url=http://walk.example/axe/x', 'explain?url=http://walk.example/none', 'laboratory',
  'upstreams/axe?tab=endpoints', 'upstreams/axe?tab=topology', 'changes', 'faults',
]);
