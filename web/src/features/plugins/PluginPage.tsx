/** Page under construction. */
import { Page } from '../../ui/Page';

export default function PluginPage() {
  return <Page title="PluginPage">{null}</Page>;
}
