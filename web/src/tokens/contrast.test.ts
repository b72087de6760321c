import { describe, expect, it } from 'vitest';
import { contrast } from './contrast';
import { dark, light, tokensCss, type ColourName } from './tokens';

const TEXT: ColourName[] = ['text', 'text-2', 'text-3', 'accent', 'ok', 'warn', 'err'];
const GRAPHIC: ColourName[] = [
  'field', 'mark-ok', 'mark-warn', 'mark-err', 'mark-off',
  'chart-1', 'chart-2', 'chart-3', 'chart-4', 'chart-5', 'chart-6',
  'edge-2xx', 'edge-3xx', 'edge-4xx', 'edge-5xx',
  'span-gateway', 'span-endpoint', 'span-failed', 'span-client',
];

describe.each([['light', light], ['dark', dark]] as const)('%s theme', (_name, theme) => {
  it.each(TEXT)('%s is readable on every ground', (name) => {
    for (const ground of ['page', 'surface', 'inset'] as const) {
      expect(contrast(theme[name], theme[ground])).toBeGreaterThanOrEqual(4.5);
    }
  });
  it.each(['ok', 'warn', 'err'] as const)('%s is readable on its soft ground', (name) => {
    expect(contrast(theme[name], theme[`${name}-soft`])).toBeGreaterThanOrEqual(4.5);
  });
  it('text is readable on a selected row and on the accent', () => {
    expect(contrast(theme['text-3'], theme.selected)).toBeGreaterThanOrEqual(4.5);
    expect(contrast(theme['on-accent'], theme.accent)).toBeGreaterThanOrEqual(4.5);
  });
  it.each(GRAPHIC)('%s is visible on the surface', (name) => {
    expect(contrast(theme[name], theme.surface)).toBeGreaterThanOrEqual(3);
  });
});

it('style sheet holds each variable for both themes', () => {
  const css = tokensCss();
  expect(css).toContain('--page:#F5F7F9');
  expect(css).toContain('--page:#0D1218');
});
