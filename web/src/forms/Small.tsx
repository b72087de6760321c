/** Small buttons for the rows of forms. */
import type { ComponentProps } from 'react';
import { Button, IconButton } from '../ui/Button';

export function SmallButton(props: ComponentProps<typeof Button>) {
  return <Button {...props} className={`btn-small ${props.className ?? ''}`} />;
}

export function SmallIcon(props: ComponentProps<typeof IconButton>) {
  return <IconButton {...props} className={`btn-small-icon ${props.className ?? ''}`} />;
}
