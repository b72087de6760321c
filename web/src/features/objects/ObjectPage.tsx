/** Page under construction. */
import { Page } from '../../ui/Page';

export default function ObjectPage() {
  return <Page title="ObjectPage">{null}</Page>;
}
