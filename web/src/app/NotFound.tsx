/** Pages for an address without a page and for a page that failed to draw. */
import { Problem } from '../ui/Problem';

export function NotFound() {
  return <Problem title="There is no such page." detail="The navigation at the left lists all pages." />;
}

export function Lost({ error }: { error: unknown }) {
  return <Problem title="This page could not be shown." error={error} retry={() => window.location.reload()} />;
}
