// @vitest-environment jsdom
/** A text that does not parse is there again when its view is, until it is mended or dropped. */
import { act } from 'react';
import { createRoot } from 'react-dom/client';
import { MantineProvider } from '@mantine/core';
import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import { FormContext, type FormEnv } from './env';
import { JsonInput } from './fields/JsonField';
import { dropTyped, keepTyped, readTyped } from './typed';

beforeAll(() => {
  Object.assign(globalThis, { IS_REACT_ACT_ENVIRONMENT: true });
  Object.assign(window, { matchMedia: () => ({ matches: false, addEventListener() {}, removeEventListener() {}, addListener() {}, removeListener() {} }) });
  Object.defineProperty(window.document, 'fonts', { value: { addEventListener() {}, removeEventListener() {} } });
  Object.assign(globalThis, { ResizeObserver: class { observe() {} unobserve() {} disconnect() {} } });
});
afterEach(() => act(() => dropTyped('')));

const env = { draft: 'routes/a#field' } as FormEnv;

function mount(emit: (value: unknown) => void) {
  const host = window.document.createElement('div');
  window.document.body.append(host);
  const root = createRoot(host);
  act(() => root.render(<MantineProvider><FormContext.Provider value={env}><JsonInput aria={{ 'aria-label': 'x' }} value={{ a: 1 }} emit={emit} pointer="/vars" /></FormContext.Provider></MantineProvider>));
  const area = host.querySelector('textarea') as HTMLTextAreaElement;
  const type = (text: string) => act(() => {
    Object.getOwnPropertyDescriptor(HTMLTextAreaElement.prototype, 'value')?.set?.call(area, text);
    area.dispatchEvent(new Event('input', { bubbles: true }));
  });
  return { host, area, type, close: () => act(() => root.unmount()) };
}

function leaves(): boolean {
  return window.dispatchEvent(new Event('beforeunload', { cancelable: true }));
}

describe('typed texts', () => {
  it('a field that goes away keeps its text', () => {
    const given: unknown[] = [];
    const first = mount((value) => given.push(value));
    first.type('{"a": 1,');
    expect(given).toEqual([]);
    expect(leaves()).toBe(false);
    first.close();
    const second = mount((value) => given.push(value));
    expect(second.area.value).toBe('{"a": 1,');
    expect(second.host.textContent).toContain('ends too early');
    second.type('{"a": 2}');
    expect(given).toEqual([{ a: 2 }]);
    expect(readTyped('routes/a#field/vars')).toBeNull();
    expect(leaves()).toBe(true);
    second.close();
  });
  it('a dropped text gives way to the document', () => {
    const field = mount(() => undefined);
    field.type('{');
    act(() => dropTyped('routes/a#'));
    expect(field.area.value).toBe('{\n  "a": 1\n}');
    field.close();
  });
  it('texts of other objects stay', () => {
    keepTyped('routes/ab#json', { text: '{', error: 'x', at: 0 });
    keepTyped('routes/a#json', { text: '[', error: 'x', at: 0 });
    dropTyped('routes/a#');
    expect(readTyped('routes/ab#json')?.text).toBe('{');
    expect(readTyped('routes/a#json')).toBeNull();
  });
});
