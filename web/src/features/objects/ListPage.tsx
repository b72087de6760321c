/** Page under construction. */
import { Page } from '../../ui/Page';

export default function ListPage() {
  return <Page title="ListPage">{null}</Page>;
}
