/** Page under construction. */
import { Page } from '../../ui/Page';

export default function OverviewPage() {
  return <Page title="OverviewPage">{null}</Page>;
}
