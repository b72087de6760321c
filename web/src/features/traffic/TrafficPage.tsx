/** Page under construction. */
import { Page } from '../../ui/Page';

export default function TrafficPage() {
  return <Page title="TrafficPage">{null}</Page>;
}
