/** Page under construction. */
import { Page } from '../../ui/Page';

export default function ChangesPage() {
  return <Page title="ChangesPage">{null}</Page>;
}
