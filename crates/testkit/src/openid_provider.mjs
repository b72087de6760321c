// An OpenID provider for tests: npm's oidc-provider on a free port. It prints its issuer when it serves.
import { generateKeyPairSync } from 'node:crypto';
import { createServer } from 'node:http';
import { pathToFileURL } from 'node:url';

const [modules, settings] = [process.argv[2], JSON.parse(process.argv[3])];
const { Provider } = await import(pathToFileURL(`${modules}/oidc-provider/lib/index.js`));
// The key of the clients that authenticate with private_key_jwt.
const { publicKey, privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
for (const client of settings.clients) {
  if (client.token_endpoint_auth_method === 'private_key_jwt') {
    client.jwks = { keys: [{ ...publicKey.export({ format: 'jwk' }), kid: 'client-key', use: 'sig' }] };
  }
}
const server = createServer();
await new Promise((listening) => server.listen(0, '127.0.0.1', listening));
const issuer = `http://127.0.0.1:${server.address().port}`;
const provider = new Provider(issuer, {
  clients: settings.clients,
  scopes: ['openid', 'offline_access', 'email', 'read', 'write'],
  claims: { openid: ['sub'], email: ['email'] },
  findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id, email: `${id}@example.test` }) }),
  issueRefreshToken: () => true,
  rotateRefreshToken: true,
  pkce: { required: () => false },
  features: {
    devInteractions: { enabled: true },
    clientCredentials: { enabled: true },
    introspection: { enabled: true },
    revocation: { enabled: true },
    pushedAuthorizationRequests: { enabled: true },
    // Tokens of the client `api` are signed ones for an API, all others are opaque.
    resourceIndicators: {
      enabled: true,
      defaultResource: (ctx) => (ctx.oidc.client.clientId === 'api' ? 'http://api.example' : undefined),
      useGrantedResource: () => true,
      getResourceServerInfo: () => ({ scope: 'read write', audience: 'gw', accessTokenTTL: 600, accessTokenFormat: 'jwt' }),
    },
  },
});
server.on('request', provider.callback());
console.log(`key ${JSON.stringify(privateKey.export({ type: 'pkcs8', format: 'pem' }))}`);
console.log(`issuer ${issuer}`);
