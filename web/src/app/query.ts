/** The query cache: one for the page, told of newer revisions by the answers themselves. */
import { QueryClient } from '@tanstack/react-query';
import { ApiError, onAnswer } from '../api/client';
import { REVISION_ROOTS } from '../api/keys';

export const queries = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 5_000,
      gcTime: 5 * 60_000,
      refetchOnWindowFocus: true,
      retry: (failures, error) => !(error instanceof ApiError && error.status >= 400 && error.status < 500) && failures < 2,
      retryDelay: (failures) => Math.min(500 * 2 ** failures, 5_000),
    },
  },
});

let newest = 0;

/** Marks what a revision changes as stale; called by every answer and by the stream of events. */
export function sawRevision(revision: number): void {
  if (revision <= newest) return;
  const first = newest === 0;
  newest = revision;
  if (first) return;
  void queries.invalidateQueries({ predicate: ({ queryKey }) => REVISION_ROOTS.includes(String(queryKey[0])) });
}

onAnswer((_status, revision) => {
  if (revision !== null) sawRevision(revision);
});
