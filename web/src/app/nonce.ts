/** The nonce of this page's styles; the server puts a fresh one into `index.html` for each load. */

export function styleNonce(): string {
  const meta = document.querySelector<HTMLMetaElement>('meta[property="csp-nonce"]');
  return meta?.nonce || meta?.content || '';
}
