/** oidc-provider in memory, as in its quick start: introspection of an opaque access token. */
import Provider from 'oidc-provider';

const client = {
  client_id: 'bench',
  client_secret: 'bench-secret-that-is-long-enough',
  grant_types: ['client_credentials'],
  redirect_uris: [],
  response_types: [],
};
const provider = new Provider('http://127.0.0.1', {
  clients: [client],
  features: {
    clientCredentials: { enabled: true },
    introspection: { enabled: true },
    devInteractions: { enabled: false },
  },
});
const server = provider.listen(0, '127.0.0.1', async () => {
  const url = `http://127.0.0.1:${server.address().port}`;
  const response = await fetch(`${url}/token`, {
    method: 'POST',
    headers: {
      Authorization: `Basic ${btoa(`${client.client_id}:${client.client_secret}`)}`,
      'Content-Type': 'application/x-www-form-urlencoded',
    },
    body: 'grant_type=client_credentials',
  });
  const { access_token: token } = await response.json();
  console.log(`key ${token}`);
  console.log(`listening on ${url}`);
});
