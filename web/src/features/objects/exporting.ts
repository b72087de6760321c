/** Files made in the browser: objects as a resources file. */
import { unmarkYaml } from '../../api/exact';
import type { Json } from '../../forms/json';
import type { ObjectSet } from '../../forms/plan';

/** Offers a set as a YAML file; the writer of YAML is fetched when it is needed. */
export async function saveFile(name: string, set: ObjectSet): Promise<void> {
  const { stringify } = await import('yaml');
  saveText(name, unmarkYaml(stringify(set as Json, { lineWidth: 0 })), 'application/yaml');
}

export function saveText(name: string, text: string, type: string): void {
  const address = URL.createObjectURL(new Blob([text], { type }));
  const link = document.createElement('a');
  link.href = address;
  link.download = name;
  link.click();
  // The browser has taken the data when the click returns, but some begin to read it a moment later.
  window.setTimeout(() => URL.revokeObjectURL(address), 10_000);
}
