/** The status of the instance, for the navigation and the revision chip. */
import { useQuery } from '@tanstack/react-query';
import { get } from '../api/client';
import { keys } from '../api/keys';
import { usePoll } from './events';

export interface Status {
  revision: number;
  workers: { worker: number; revision: number }[];
  objects: Record<string, number>;
  faults: { key?: string | null; pointer?: string; reason: string; kept?: boolean }[];
}

export function useStatus(): Status | undefined {
  const poll = usePoll(30_000);
  return useQuery({
    queryKey: keys.status,
    queryFn: ({ signal }) => get<Status>('weir/status', undefined, signal),
    refetchInterval: poll,
  }).data;
}
