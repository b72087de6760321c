/** Icons of the pages, by their path. */
import {
  IconActivity, IconAlertTriangle, IconArrowsLeftRight, IconBinaryTree, IconBox, IconCertificate, IconFileText, IconFlask, IconHistory,
  IconKey, IconLayoutDashboard, IconPlug, IconRoute, IconServer2, IconStack2, IconTargetArrow, IconUsers, IconUsersGroup, IconWorld, type Icon,
} from '@tabler/icons-react';

const ICONS: Record<string, Icon> = {
  '/overview': IconLayoutDashboard,
  '/traffic': IconActivity,
  '/explain': IconTargetArrow,
  '/routes': IconRoute,
  '/services': IconBox,
  '/upstreams': IconServer2,
  '/stream_routes': IconArrowsLeftRight,
  '/ssls': IconCertificate,
  '/consumers': IconUsers,
  '/consumer_groups': IconUsersGroup,
  '/secrets': IconKey,
  '/plugins': IconPlug,
  '/plugin_configs': IconStack2,
  '/global_rules': IconWorld,
  '/plugin_metadata': IconFileText,
  '/protos': IconBinaryTree,
  '/changes': IconHistory,
  '/faults': IconAlertTriangle,
  '/laboratory': IconFlask,
};

export function PageIcon({ path, size = 16 }: { path: string; size?: number }) {
  const Found = ICONS[path] ?? IconBox;
  return <Found size={size} stroke={1.75} aria-hidden="true" />;
}
