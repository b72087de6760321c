/** The schemas of all plugins, those of layer 4 alone among them, which the list of HTTP does not have. */
import type { PluginInfo } from './env';
import { get } from '../api/client';

export async function pluginInfos(signal: AbortSignal): Promise<Record<string, PluginInfo>> {
  const of = (query: Record<string, string | boolean>) => get<Record<string, PluginInfo>>('plugins', query, signal);
  const [http, stream] = await Promise.all([of({ all: true }), of({ all: true, subsystem: 'stream' })]);
  return { ...stream, ...http };
}
