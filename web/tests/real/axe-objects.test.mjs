/** The lists and pages of objects with the data of a running gateway, in both themes: axe without a finding. */
import { findsNothing } from './axe.mjs';

findsNothing('axe_finds_nothing_on_object_pages', [
  'routes', 'routes/new', 'routes/axe', 'routes/axe?tab=history', 'routes/axe?tab=used-by', 'services/axe', 'upstreams', 'upstreams/axe?tab=form',
]);
