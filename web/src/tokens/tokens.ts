/** Colours, sizes and fonts of the dashboard; the build turns them into CSS variables. */

/** The colours of one theme; the name of a field is the name of its CSS variable (`--page`). */
export const light = {
  page: '#F5F7F9',
  surface: '#FFFFFF',
  inset: '#EDF1F5',
  border: '#DCE2E9',
  text: '#16202B',
  'text-2': '#465260',
  'text-3': '#5F6B7A',
  field: '#7C8796',
  accent: '#0B6784',
  'on-accent': '#FFFFFF',
  selected: '#E2F0F5',
  ok: '#18733F',
  warn: '#8A5200',
  err: '#BA2A25',
  'ok-soft': '#E5F4EB',
  'warn-soft': '#FCF1D9',
  'err-soft': '#FCE9E7',
  'mark-ok': '#3F9562',
  'mark-warn': '#B27A0E',
  'mark-err': '#A71C1B',
  'mark-off': '#5F6B7A',
  'chart-1': '#0B6784',
  'chart-2': '#B2771A',
  'chart-3': '#8537BA',
  'chart-4': '#194F17',
  'chart-5': '#850357',
  'chart-6': '#8D929B',
  'fill-2xx': '#9CC3D2',
  'fill-3xx': '#C9D2DA',
  'fill-4xx': '#D9A441',
  'fill-5xx': '#A71C1B',
  'edge-2xx': '#4F8097',
  'edge-3xx': '#7C8796',
  'edge-4xx': '#9A6200',
  'edge-5xx': '#A71C1B',
  'span-gateway': '#0B6784',
  'span-endpoint': '#5B8799',
  'span-failed': '#A71C1B',
  'span-client': '#8D929B',
};

export type Colours = typeof light;
export type ColourName = keyof Colours;

export const dark: Colours = {
  page: '#0D1218',
  surface: '#141B23',
  inset: '#1C252F',
  border: '#2A3542',
  text: '#E7ECF2',
  'text-2': '#B2BDC9',
  'text-3': '#8F9BAA',
  field: '#6E7B8B',
  accent: '#62C3E1',
  'on-accent': '#05202A',
  selected: '#10303C',
  ok: '#56C78F',
  warn: '#F0B54A',
  err: '#FF8A80',
  'ok-soft': '#10291E',
  'warn-soft': '#2D2410',
  'err-soft': '#351B1C',
  'mark-ok': '#7FE0A0',
  'mark-warn': '#FEC436',
  'mark-err': '#E95741',
  'mark-off': '#8F9BAA',
  'chart-1': '#62C3E1',
  'chart-2': '#FDB154',
  'chart-3': '#8C57D5',
  'chart-4': '#428C65',
  'chart-5': '#BF669F',
  'chart-6': '#CFD0D1',
  'fill-2xx': '#3B6F83',
  'fill-3xx': '#45525F',
  'fill-4xx': '#C9922B',
  'fill-5xx': '#E95741',
  'edge-2xx': '#62A0B8',
  'edge-3xx': '#8F9BAA',
  'edge-4xx': '#F0B54A',
  'edge-5xx': '#E95741',
  'span-gateway': '#62C3E1',
  'span-endpoint': '#4F8CA3',
  'span-failed': '#E95741',
  'span-client': '#CFD0D1',
};

/** Sizes in pixels; breakpoints stand in the style sheets too, because media queries take no variables. */
export const sizes = {
  row: 36,
  'row-compact': 30,
  'row-phone': 60,
  head: 32,
  control: 32,
  bar: 48,
  nav: 208,
  'nav-small': 56,
  'radius-tag': 4,
  'radius-control': 6,
  'radius-card': 8,
};

export const PHONE_PX = 720;
export const NARROW_PX = 1100;

export const fonts = {
  sans: "Inter, system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', sans-serif",
  mono: "'JetBrains Mono', ui-monospace, SFMono-Regular, Menlo, Consolas, monospace",
};

function block(selector: string, colours: Colours, scheme: string): string {
  const lines = Object.entries(colours).map(([name, value]) => `--${name}:${value}`);
  return `${selector}{color-scheme:${scheme};${lines.join(';')}}`;
}

/** The style sheet with all variables; `data-mantine-color-scheme` on the root element chooses the theme. */
export function tokensCss(): string {
  const fixed = [
    ...Object.entries(sizes).map(([name, px]) => `--${name}:${px}px`),
    `--sans:${fonts.sans}`,
    `--mono:${fonts.mono}`,
  ].join(';');
  return [
    `:root{${fixed}}`,
    block(':root', light, 'light'),
    `@media (prefers-color-scheme: dark){${block(':root:not([data-mantine-color-scheme=light])', dark, 'dark')}}`,
    block(':root[data-mantine-color-scheme=dark]', dark, 'dark'),
  ].join('\n');
}
