/** The lists of kinds and the plugins with the data of a running gateway, in both themes: axe without a finding. */
import { findsNothing } from './axe.mjs';

findsNothing('axe_finds_nothing_on_lists', [
  'services', 'ssls', 'consumers', 'consumers/axe', 'secrets', 'plugins', 'plugins/limit-count', 'global_rules',
]);
