import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { checkPair, pemBlocks, readCertificate } from './pem';

let folder = '';
let made = false;
const read = (name: string) => readFileSync(join(folder, name), 'utf8');
const openssl = (...args: string[]) => execFileSync('openssl', args, { cwd: folder, stdio: 'pipe' });

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'pem-'));
  try {
    openssl('req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-keyout', 'ca.key', '-out', 'ca.pem', '-subj', '/CN=Test CA', '-days', '30');
    writeFileSync(join(folder, 'san.txt'), 'subjectAltName=DNS:shop.example,DNS:*.shop.example\n');
    openssl('req', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-keyout', 'leaf.key', '-out', 'leaf.csr', '-subj', '/CN=shop.example');
    openssl('x509', '-req', '-in', 'leaf.csr', '-CA', 'ca.pem', '-CAkey', 'ca.key', '-CAcreateserial', '-days', '10', '-extfile', 'san.txt', '-out', 'leaf.pem');
    openssl('req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-keyout', 'rsa.key', '-out', 'rsa.pem', '-subj', '/CN=rsa.example', '-days', '30');
    openssl('pkey', '-in', 'leaf.key', '-aes256', '-passout', 'pass:x', '-out', 'locked.key');
    made = true;
  } catch {
    // A machine without openssl leaves these cases out; the texts below need none.
  }
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe('certificates', () => {
  it('good_pair_has_no_fault', (context) => {
    if (!made) context.skip();
    const found = checkPair(read('leaf.pem') + read('ca.pem'), read('leaf.key'), Date.now());
    expect(found.faults).toEqual([]);
    expect(found.warnings).toEqual([]);
    expect(found.certificates[0]?.names).toEqual(['shop.example', '*.shop.example']);
    expect(found.certificates[0]?.issuer).toBe('Test CA');
    expect(checkPair(read('rsa.pem'), read('rsa.key'), Date.now()).faults).toEqual([]);
  });
  it('mismatched_pair_is_refused', (context) => {
    if (!made) context.skip();
    expect(checkPair(read('leaf.pem'), read('ca.key'), Date.now()).faults.join()).toContain('does not belong');
    expect(checkPair(read('rsa.pem'), read('rsa.key').replace(/\n/g, '\n'), Date.now()).faults).toEqual([]);
  });
  it('expired_certificate_is_refused', (context) => {
    if (!made) context.skip();
    expect(checkPair(read('leaf.pem'), read('leaf.key'), Date.now() + 60 * 86_400_000).faults.join()).toContain('expired');
  });
  it('wrong_order_of_the_chain_is_refused', (context) => {
    if (!made) context.skip();
    expect(checkPair(read('ca.pem') + read('leaf.pem'), read('ca.key'), Date.now()).faults.join()).toContain('wrong order');
  });
  it('encrypted_key_is_refused', (context) => {
    if (!made) context.skip();
    expect(checkPair(read('leaf.pem'), read('locked.key'), Date.now()).faults.join()).toContain('encrypted');
  });
  it('nonsense_is_refused_without_a_crash', () => {
    expect(checkPair('', '', 0).faults).toHaveLength(2);
    const bad = '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----';
    expect(checkPair(bad, bad, 0).faults.length).toBeGreaterThan(0);
    expect(pemBlocks('-----BEGIN CERTIFICATE-----\n!!!!\n-----END CERTIFICATE-----')[0]?.bytes.length).toBe(0);
    for (let length = 0; length < 64; length += 1) expect(() => readCertificate(new Uint8Array(length).fill(0x30))).toThrow();
  });
});
