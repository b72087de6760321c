/** Page under construction. */
import { Page } from '../../ui/Page';

export default function FaultsPage() {
  return <Page title="FaultsPage">{null}</Page>;
}
