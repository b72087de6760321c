/** Page under construction. */
import { Page } from '../../ui/Page';

export default function VersionPage() {
  return <Page title="VersionPage">{null}</Page>;
}
