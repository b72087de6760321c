/** Page under construction. */
import { Page } from '../../ui/Page';

export default function ExplainPage() {
  return <Page title="ExplainPage">{null}</Page>;
}
