/** Rules of the source that no type checks: what a file may import, and calls that may put markup or code into the page. */
import { readFileSync, readdirSync, statSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { describe, expect, it } from 'vitest';

const SRC = dirname(new URL(import.meta.url).pathname);

function files(folder: string): string[] {
  return readdirSync(folder).flatMap((name) => {
    const path = join(folder, name);
    return statSync(path).isDirectory() ? files(path) : /\.tsx?$/.test(name) ? [path] : [];
  });
}

const ALL = files(SRC).map((path) => ({ name: relative(SRC, path), text: readFileSync(path, 'utf8'), path }));
const SOURCES = ALL.filter(({ name }) => !name.includes('.test.'));

/** Features that another feature may use: the tabs of an upstream are shown by the page of an object. */
const SHARED = new Set(['upstreams']);

function imports(path: string, text: string): string[] {
  return [...text.matchAll(/from '(\.[^']+)'|import\('(\.[^']+)'\)|import '(\.[^']+)'/g)].map((found) =>
    relative(SRC, resolve(dirname(path), found[1] ?? found[2] ?? found[3] ?? '')));
}

describe('rules of the source', () => {
  it('nothing puts markup or code into the page', () => {
    const bad = /\.innerHTML|outerHTML\s*=|insertAdjacentHTML|dangerouslySetInnerHTML|\beval\(|new Function\(|document\.write/;
    expect(SOURCES.filter(({ text }) => bad.test(text)).map(({ name }) => name)).toEqual([]);
  });
  it('no other host is named', () => {
    const hosts = SOURCES.flatMap(({ name, text }) =>
      [...text.matchAll(/https?:\/\/([a-z0-9.-]+\.[a-z]{2,})/gi)]
        .map((found) => found[1]!)
        .filter((host) => !/(^|\.)example(\.(com|org|net))?$|^www\.w3\.org$|^json-schema\.org$/.test(host) && !/^\d+\./.test(host))
        .map((host) => `${name}: ${host}`));
    expect(hosts).toEqual([]);
  });
  it('features do not import each other', () => {
    const wrong = SOURCES.flatMap(({ name, path, text }) => {
      const own = /^features\/([^/]+)\//.exec(name)?.[1];
      return imports(path, text)
        .map((target) => /^features\/([^/]+)/.exec(target)?.[1])
        .filter((other) => own !== undefined && other !== undefined && other !== own && !SHARED.has(other))
        .map((other) => `${name} imports ${other}`);
    });
    expect(wrong).toEqual([]);
  });
  it('api and tokens import nothing above them', () => {
    const wrong = SOURCES.filter(({ name }) => /^(api|tokens)\//.test(name)).flatMap(({ name, path, text }) =>
      imports(path, text).filter((target) => /^(features|forms|ui|app)\//.test(target)).map((target) => `${name} imports ${target}`));
    expect(wrong).toEqual([]);
  });
  it('every file says what it is', () => {
    expect(SOURCES.filter(({ name, text }) => !text.startsWith('/**') && !name.endsWith('.d.ts')).map(({ name }) => name)).toEqual([]);
  });
  it('files stay short', () => {
    expect(SOURCES.filter(({ text }) => text.split('\n').length > 350).map(({ name }) => name)).toEqual([]);
  });
});
