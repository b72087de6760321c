/** All kinds by the collection of the Admin API. */
import { consumerGroups, consumers, credentials } from './consumers';
import { globalRules, metadata, pluginConfigs, protos, secrets, ssls, streamRoutes } from './others';
import { routes } from './routes';
import { services } from './services';
import { upstreams } from './upstreams';
import type { Kind } from './types';

export const KINDS: Readonly<Record<string, Kind>> = {
  routes, services, upstreams, ssls, stream_routes: streamRoutes, consumers, credentials, consumer_groups: consumerGroups, secrets,
  plugin_configs: pluginConfigs, global_rules: globalRules, plugin_metadata: metadata, protos,
};

export function kindOf(name: string | undefined): Kind | undefined {
  return name !== undefined && Object.hasOwn(KINDS, name) ? KINDS[name] : undefined;
}
