/** Reads PEM texts in the browser: enough of X.509 to show names and dates and to refuse a pair that cannot work. */

export interface PemBlock {
  label: string;
  bytes: Uint8Array;
  text: string;
  encrypted: boolean;
}

export interface CertificateFacts {
  subject: string;
  issuer: string;
  names: string[];
  notBefore: number;
  notAfter: number;
  /** The raw names, for the order of a chain. */
  issuerBytes: string;
  subjectBytes: string;
  /** The public key as it stands in the certificate. */
  publicKey: Uint8Array;
}

export interface PairCheck {
  certificates: CertificateFacts[];
  faults: string[];
  warnings: string[];
}

/** Longest text that is read, in characters; a chain has some kilobytes. */
const MOST = 1_048_576;

/** The blocks of a PEM text. */
export function pemBlocks(text: string): PemBlock[] {
  const found: PemBlock[] = [];
  for (const match of text.slice(0, MOST).matchAll(/-----BEGIN ([A-Z0-9 ]+)-----([^-]*)-----END \1-----/g)) {
    const [whole, label = '', body = ''] = match;
    const encrypted = label.startsWith('ENCRYPTED') || /Proc-Type:\s*4,ENCRYPTED/.test(body);
    const base64 = body.split(/\r?\n/).filter((line) => !line.includes(':')).join('').replace(/\s+/g, '');
    let bytes = new Uint8Array();
    try {
      bytes = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
    } catch {
      // A block that is not base64 has no bytes; the check says so.
    }
    found.push({ label, bytes, text: `${whole}\n`, encrypted });
  }
  return found;
}

interface Node {
  tag: number;
  /** Content. */
  body: Uint8Array;
  /** With header. */
  whole: Uint8Array;
}

/** The DER elements one after the other in some bytes; throws where a length does not fit. */
function elements(bytes: Uint8Array): Node[] {
  const found: Node[] = [];
  let at = 0;
  while (at < bytes.length) {
    const start = at;
    const tag = bytes[at] as number;
    let length = bytes[at + 1] ?? 0;
    at += 2;
    if (length & 0x80) {
      const count = length & 0x7f;
      if (count === 0 || count > 4) throw new Error('a length is malformed');
      length = 0;
      for (let index = 0; index < count; index += 1) length = length * 256 + (bytes[at + index] ?? 0);
      at += count;
    }
    if (at + length > bytes.length) throw new Error('an element is cut off');
    found.push({ tag, body: bytes.subarray(at, at + length), whole: bytes.subarray(start, at + length) });
    at += length;
  }
  return found;
}

const hex = (bytes: Uint8Array) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
const utf8 = (bytes: Uint8Array) => new TextDecoder().decode(bytes);

/** Object identifiers as hex: common name, organisation, subject alternative names. */
const COMMON_NAME = '550403';
const ORGANISATION = '55040a';
const ALTERNATIVE_NAMES = '551d11';

function nameText(name: Node): string {
  let [common, organisation] = ['', ''];
  for (const set of elements(name.body)) {
    for (const pair of elements(set.body)) {
      const [kind, value] = elements(pair.body);
      if (!kind || !value) continue;
      if (hex(kind.body) === COMMON_NAME) common = utf8(value.body);
      if (hex(kind.body) === ORGANISATION) organisation = utf8(value.body);
    }
  }
  return common || organisation || 'unnamed';
}

function timeOf(node: Node): number {
  const text = utf8(node.body);
  const short = node.tag === 0x17;
  const year = short ? (Number(text.slice(0, 2)) < 50 ? 2000 : 1900) + Number(text.slice(0, 2)) : Number(text.slice(0, 4));
  const rest = text.slice(short ? 2 : 4);
  const part = (index: number) => Number(rest.slice(index * 2, index * 2 + 2));
  return Date.UTC(year, part(0) - 1, part(1), part(2), part(3), part(4));
}

/** The facts of a certificate; throws if the bytes are none. */
export function readCertificate(bytes: Uint8Array): CertificateFacts {
  const [certificate] = elements(bytes);
  const [body] = elements(certificate?.body ?? new Uint8Array());
  const parts = elements(body?.body ?? new Uint8Array());
  const shift = parts[0]?.tag === 0xa0 ? 1 : 0;
  const [issuer, validity, subject, key] = [parts[2 + shift], parts[3 + shift], parts[4 + shift], parts[5 + shift]];
  if (!issuer || !validity || !subject || !key) throw new Error('this is no certificate');
  const [from, until] = elements(validity.body);
  if (!from || !until) throw new Error('the dates are missing');
  const names: string[] = [];
  const extensions = parts.find((part) => part.tag === 0xa3);
  if (extensions) {
    for (const extension of elements(elements(extensions.body)[0]?.body ?? new Uint8Array())) {
      const fields = elements(extension.body);
      if (!fields[0] || hex(fields[0].body) !== ALTERNATIVE_NAMES) continue;
      const value = fields.at(-1) as Node;
      for (const name of elements(elements(value.body)[0]?.body ?? new Uint8Array())) if (name.tag === 0x82) names.push(utf8(name.body));
    }
  }
  return { subject: nameText(subject), issuer: nameText(issuer), names, notBefore: timeOf(from), notAfter: timeOf(until), issuerBytes: hex(issuer.whole), subjectBytes: hex(subject.whole), publicKey: key.whole };
}

const find = (bytes: Uint8Array, part: Uint8Array) => part.length > 0 && hex(bytes).includes(hex(part));

/** Whether a private key belongs to a certificate; null where the key's form does not say. */
function isPair(key: PemBlock, certificate: CertificateFacts): boolean | null {
  try {
    const bits = elements(elements(certificate.publicKey)[0]?.body ?? new Uint8Array())[1];
    const point = bits?.body.subarray(1);
    if (!point) return null;
    const fields = elements(elements(key.bytes)[0]?.body ?? new Uint8Array());
    if (key.label === 'EC PRIVATE KEY') {
      const has = fields.find((field) => field.tag === 0xa1);
      return has ? find(has.body, point) : null;
    }
    const inner = key.label === 'RSA PRIVATE KEY' ? key.bytes : fields.find((field) => field.tag === 0x04)?.body;
    if (!inner) return null;
    const content = elements(elements(inner)[0]?.body ?? new Uint8Array());
    const tagged = content.find((field) => field.tag === 0xa1);
    if (tagged) return find(tagged.body, point);
    if (content.length < 9) return null;
    // An RSA key holds the modulus of the certificate as its second number.
    const modulus = elements(elements(point)[0]?.body ?? new Uint8Array())[0];
    return modulus && content[1] ? hex(modulus.body) === hex(content[1].body) : null;
  } catch {
    return null;
  }
}

/** Checks a chain and a key at a time: order, dates, encryption, and whether they belong together. */
export function checkPair(certificate: string, key: string, now: number): PairCheck {
  const faults: string[] = [];
  const warnings: string[] = [];
  const certificates: CertificateFacts[] = [];
  const blocks = pemBlocks(certificate).filter((block) => block.label === 'CERTIFICATE');
  if (blocks.length === 0) faults.push('There is no certificate in the text: it needs a block "-----BEGIN CERTIFICATE-----".');
  for (const [index, block] of blocks.entries()) {
    try {
      certificates.push(readCertificate(block.bytes));
    } catch {
      faults.push(`Certificate ${index + 1} of the text cannot be read.`);
    }
  }
  const [leaf] = certificates;
  if (leaf) {
    if (leaf.notAfter <= now) faults.push('The certificate has expired.');
    if (leaf.notBefore > now) warnings.push('The certificate is not valid yet.');
    certificates.slice(0, -1).forEach((one, index) => {
      const next = certificates[index + 1] as CertificateFacts;
      if (one.issuerBytes !== next.subjectBytes) faults.push(`The chain is in the wrong order: certificate ${index + 2} did not issue certificate ${index + 1}. The certificate of the server comes first.`);
    });
  }
  const keys = pemBlocks(key).filter((block) => block.label.endsWith('PRIVATE KEY'));
  if (keys.length === 0) faults.push('There is no private key in the text.');
  else if (keys.some((block) => block.encrypted)) faults.push('The key is encrypted with a passphrase; decrypt it first, for example with "openssl pkey".');
  else if (leaf) {
    const pair = isPair(keys[0] as PemBlock, leaf);
    if (pair === false) faults.push('The key does not belong to the certificate.');
    if (pair === null) warnings.push('Whether the key belongs to the certificate is checked by the instance.');
  }
  return { certificates, faults, warnings };
}
