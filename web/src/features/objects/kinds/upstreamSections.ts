/** The sections of an upstream's form; an upstream inside a route has the same fields. */
import type { Section } from '../../../forms/SchemaForm';

export const UPSTREAM_SECTIONS: Section[] = [
  { title: 'Nodes', fields: ['nodes', 'service_name', 'discovery_type', 'discovery_args'], choice: [{ label: 'addresses', fields: ['nodes'] }, { label: 'discovery', fields: ['service_name', 'discovery_type', 'discovery_args'] }] },
  { title: 'Balance', fields: ['type', 'hash_on', 'key', 'subset', 'zone_aware', 'sticky', 'slow_start', 'overflow', 'panic_threshold'], open: ['type'] },
  { title: 'Protocol', fields: ['scheme', 'http_version', 'pass_host', 'upstream_host', 'tls', 'keepalive_pool'], open: ['scheme'] },
  { title: 'Failures', fields: ['retries', 'retry_timeout', 'retry', 'timeout', 'deadline', 'checks', 'outlier_ejection', 'circuit_breaker', 'limits'] },
  { title: 'About', fields: ['name', 'desc', 'labels'] },
];
