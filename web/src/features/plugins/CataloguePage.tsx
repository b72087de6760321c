/** Page under construction. */
import { Page } from '../../ui/Page';

export default function CataloguePage() {
  return <Page title="CataloguePage">{null}</Page>;
}
