// A GraphQL server for tests: npm's graphql-yoga on the port of its second argument, or a free one. It prints its address when it serves, and ends with its
// standard input.
import { createServer } from 'node:http';
import { pathToFileURL } from 'node:url';

const { createSchema, createYoga } = await import(pathToFileURL(`${process.argv[2]}/graphql-yoga/esm/index.js`));

const persons = [
  { id: '7', name: 'Niek', blog: 'https://040code.github.io', githubAccount: 'npalm' },
  { id: '8', name: 'Josh', blog: '', githubAccount: 'joshlong' },
];
// Executions by key: a response from a cache shows an old number.
const ticks = new Map();
const tick = (_, { key }) => {
  ticks.set(key, (ticks.get(key) ?? 0) + 1);
  return ticks.get(key);
};
const fits = (filter) => (person) => Object.entries(filter ?? {}).every(([name, value]) => person[name] === value);
const schema = createSchema({
  typeDefs: `
    input PersonFilter { name: String githubAccount: String }
    type Person { id: ID! name: String! blog: String! githubAccount: String! friends(first: Int): [Person!]! }
    type Product { id: ID! reviews(first: Int = 5): [Review!]! }
    type Review { body: String! }
    type ProductConnection { nodes: [Product!]! }
    type Query {
      persons(filter: PersonFilter): [Person!]!
      products(first: Int = 3): ProductConnection!
      tick(key: String!): Int!
    }
    type Mutation { tick(key: String!): Int! }
  `,
  resolvers: {
    Query: {
      persons: (_, { filter }) => persons.filter(fits(filter)),
      products: (_, { first }) => ({ nodes: Array.from({ length: Math.min(first, 3) }, (_, id) => ({ id, reviews: [] })) }),
      tick,
    },
    Mutation: { tick },
    Person: { friends: () => [] },
  },
});
const yoga = createYoga({ schema, logging: false, landingPage: false, maskedErrors: false });

// Below `/guarded`, only the operator may ask for the schema.
const server = createServer(async (request, response) => {
  if (!request.url.startsWith('/guarded')) return yoga(request, response);
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  const body = Buffer.concat(chunks).toString();
  if (body.includes('__schema') && request.headers.authorization !== 'Bearer operator') {
    response.writeHead(403).end('no introspection');
    return;
  }
  const answer = await yoga.fetch('http://localhost/graphql', {
    method: request.method,
    headers: { 'content-type': request.headers['content-type'] ?? '' },
    body,
  });
  response.writeHead(answer.status, { 'content-type': 'application/json' }).end(await answer.text());
});
process.stdin.on('end', () => process.exit()).resume();
await new Promise((listening) => server.listen(Number(process.argv[3] ?? 0), '127.0.0.1', listening));
console.log(`127.0.0.1:${server.address().port}`);
