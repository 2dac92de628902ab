/** Better Auth's API key plugin behind a minimal HTTP server: verifies a key and its permission. */
import { createServer } from 'node:http';
import { DatabaseSync } from 'node:sqlite';
import { apiKey } from '@better-auth/api-key';
import { betterAuth } from 'better-auth';
import { getMigrations } from 'better-auth/db/migration';
import pg from 'pg';

function openDatabase(url) {
  if (!url.startsWith('sqlite:')) return new pg.Pool({ connectionString: url, max: 10 });
  const database = new DatabaseSync(url.slice('sqlite:'.length));
  database.exec('pragma journal_mode = wal');
  database.exec('pragma synchronous = normal');
  return database;
}

const options = {
  secret: 'a secret that is long enough for a bench, and no more',
  baseURL: 'http://127.0.0.1',
  database: openDatabase(process.env.DATABASE),
  logger: { disabled: true },
  telemetry: { enabled: false },
  emailAndPassword: { enabled: true },
  // Counts requests, as by default, but rejects none.
  plugins: [apiKey({ rateLimit: { enabled: true, timeWindow: 86_400_000, maxRequests: 1e9 } })],
};
await (await getMigrations(options)).runMigrations();
const auth = betterAuth(options);
const { user } = await auth.api.signUpEmail({
  body: { email: 'bench@example.com', password: 'correct horse battery staple', name: 'Bench' },
});
const { key } = await auth.api.createApiKey({
  body: { userId: user.id, permissions: { invoice: ['read'] } },
});

const server = createServer((request, response) => {
  let text = '';
  request.on('data', (chunk) => {
    text += chunk;
  });
  request.on('end', async () => {
    const { credential, permissions } = JSON.parse(text);
    const { valid } = await auth.api.verifyApiKey({ body: { key: credential, permissions } });
    response.setHeader('Content-Type', 'application/json');
    response.statusCode = valid ? 200 : 403;
    response.end(JSON.stringify({ allowed: valid }));
  });
});
server.listen(0, '127.0.0.1', () => {
  console.log(`key ${key}`);
  console.log(`listening on http://127.0.0.1:${server.address().port}`);
});
