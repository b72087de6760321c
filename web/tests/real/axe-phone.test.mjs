/** The pages on a phone with the data of a running gateway, in both themes: axe without a finding. */
import { findsNothing } from './axe.mjs';

findsNothing('axe_finds_nothing_on_a_phone', [
  'overview', 'traffic', 'traffic?only=kept', 'explain?url=http://walk.example/axe/x', 'routes', 'routes/axe', 'upstreams/axe?tab=endpoints', 'upstreams/axe?tab=topology', 'changes', 'plugins',
], { width: 390, height: 844 });
