/** A link to a page of the dashboard. Takes part in the history; a modified click opens a tab as usual. */
import type { AnchorHTMLAttributes, MouseEvent } from 'react';
import { go, href } from '../app/url';

interface Props extends Omit<AnchorHTMLAttributes<HTMLAnchorElement>, 'href'> {
  /** Path below `/ui`, such as `/routes/shop`. */
  to: string;
  search?: Record<string, string | number | null | undefined>;
}

export function Go({ to, search, onClick, ...rest }: Props) {
  const click = (event: MouseEvent<HTMLAnchorElement>) => {
    onClick?.(event);
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    go(to, search);
  };
  return <a {...rest} href={href(to, search)} onClick={click} />;
}
