/** Fastify's hello world. */
import fastify from 'fastify';

const app = fastify();
app.get('/', async () => ({ hello: 'world' }));
console.log(`listening on ${await app.listen({ port: 0, host: '127.0.0.1' })}`);
