/** The mark of Weir: water over two steps. */
export function Logo({ size = 22 }: { size?: number }) {
  return (
    <svg width={size} height={size} viewBox="0 0 24 24" fill="none" strokeLinecap="round" strokeWidth="2.2" aria-hidden="true">
      <path d="M2 6h5c4 0 3 6 7 6h8" stroke="var(--accent)" />
      <path d="M2 12c3 0 4 3.500 8 3.500s6-.5 12-.5" stroke="var(--accent)" opacity=".6" />
      <path d="M2 18c3 0 4 2 8 2s6-2 12-1" stroke="var(--accent)" opacity=".4" />
    </svg>
  );
}
