/** Page under construction. */
import { Page } from '../../ui/Page';

export default function LabPage() {
  return <Page title="LabPage">{null}</Page>;
}
