/** The second half of the plugins of a real instance. */
import { describe, it } from 'node:test';
import { SKIP, walks } from './object-parts.mjs';
import { openPlugins } from './plugin-pages.mjs';

describe('plugins', { skip: SKIP }, () => {
  const shared = walks();
  it('page_and_form_of_other_plugins', () => openPlugins(shared, 1));
});
