/** Addresses and their pages; each page is a chunk of its own. */
import { createRootRoute, createRoute, createRouter, lazyRouteComponent, redirect } from '@tanstack/react-router';
import type { ComponentType } from 'react';
import { BASE, parseSearch, setHistory, writeSearch, type Params } from './url';
import { Shell } from './Shell';
import { Lost, NotFound } from './NotFound';

type Loader = () => Promise<{ default: ComponentType }>;

const root = createRootRoute({ component: Shell, notFoundComponent: NotFound, errorComponent: Lost });

function page(path: string, load: Loader) {
  return createRoute({
    getParentRoute: () => root,
    path,
    validateSearch: (search: Record<string, unknown>) => search as Params,
    component: lazyRouteComponent(load),
    errorComponent: Lost,
  });
}

const home = createRoute({
  getParentRoute: () => root,
  path: '/',
  beforeLoad: () => {
    throw redirect({ to: '/overview' as never });
  },
});

const tree = root.addChildren([
  home,
  page('/overview', () => import('../features/overview/OverviewPage')),
  page('/traffic', () => import('../features/traffic/TrafficPage')),
  page('/explain', () => import('../features/explain/ExplainPage')),
  page('/plugins', () => import('../features/plugins/CataloguePage')),
  page('/plugins/$name', () => import('../features/plugins/PluginPage')),
  page('/changes', () => import('../features/changes/ChangesPage')),
  page('/changes/$version', () => import('../features/changes/VersionPage')),
  page('/faults', () => import('../features/faults/FaultsPage')),
  page('/laboratory', () => import('../features/lab/LabPage')),
  page('/$kind', () => import('../features/objects/ListPage')),
  page('/$kind/$id', () => import('../features/objects/ObjectPage')),
  // Ids may hold slashes (`vault/1`). A splat takes an empty rest too, so it must not stand directly below the kind.
  page('/$kind/$id/$', () => import('../features/objects/ObjectPage')),
]);

export const router = createRouter({
  routeTree: tree,
  basepath: BASE,
  parseSearch,
  stringifySearch: (search) => writeSearch(search as Params),
  defaultPreload: false,
  scrollRestoration: true,
});
setHistory(router.history);
