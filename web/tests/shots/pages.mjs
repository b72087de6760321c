/** Pages of the pictures and of the accessibility checks; `before` brings a page into the state to look at. */
import { fileURLToPath } from 'node:url';

export const PAGES = [
  { name: 'overview', path: '/overview' },
  { name: 'traffic', path: '/traffic' },
  { name: 'timeline', path: '/traffic?q=host:*shop.example&request=01J9ZK3W7T4C00' },
  { name: 'explain', path: '/explain?method=POST&url=https://shop.example/checkout/7421/pay' },
  { name: 'explain-none', path: '/explain?method=GET&url=https://shop.example/nothing' },
  { name: 'laboratory', path: '/laboratory' },
  { name: 'laboratory-report', path: '/laboratory', before: (page) => page.locator('input[type=file]').setInputFiles(fileURLToPath(new URL('../../../lab/results/0.1.0-turns.json', import.meta.url))) },
  { name: 'routes', path: '/routes' },
  { name: 'upstream', path: '/upstreams/orders?tab=endpoints' },
  { name: 'topology', path: '/upstreams/orders?tab=topology' },
  { name: 'plugins', path: '/plugins' },
  { name: 'changes', path: '/changes' },
  { name: 'faults', path: '/faults' },
  { name: 'palette', path: '/overview', before: (page) => page.keyboard.press('Control+k') },
  { name: 'keys', path: '/overview', before: (page) => page.keyboard.press('?') },
];
