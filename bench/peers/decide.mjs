/**
 * `decide.mjs PEER MILLISECONDS CONTAINERS` prints the peer's decisions per second with 1, 10 and 50 rules, of which
 * the middle one matches. Each peer is set up once and called as its manual recommends. CONTAINERS is a power of two,
 * at most 128.
 */
import { createMongoAbility, subject } from '@casl/ability';
import { preparsePolicySet, statefulIsAuthorized } from '@cedar-policy/cedar-wasm/nodejs';
import { newEnforcer, newModelFromString } from 'casbin';

const [name, milliseconds, asked] = process.argv.slice(2);
const resources = Array.from({ length: Number(asked) }, (_, at) => ({
  id: `card-${at}`,
  container: `/customers/42/cards/${at}/`,
}));
const containers = (count) =>
  Array.from({ length: count }, (_, at) =>
    at === count >> 1 ? '/customers/42/' : `/customers/${1000 + at}/`,
  );

const model = `
[request_definition]
r = sub, obj, act
[policy_definition]
p = sub, obj, act
[policy_effect]
e = some(where (p.eft == allow))
[matchers]
m = r.sub == p.sub && r.act == p.act && keyMatch(r.obj, p.obj)`;

const peers = {
  casbin: async (count) => {
    const enforcer = await newEnforcer(newModelFromString(model));
    for (const each of containers(count)) await enforcer.addPolicy('app', `${each}*`, 'token:read');
    return (at) => enforcer.enforceSync('app', resources[at].container, 'token:read');
  },

  casl: async (count) => {
    const ability = createMongoAbility(
      containers(count).map((each) => ({
        action: 'token:read',
        subject: 'Token',
        conditions: { container: { $regex: new RegExp(`^${each}`) } },
      })),
    );
    const tokens = resources.map((each) => subject('Token', { ...each }));
    return (at) => ability.can('token:read', tokens[at]);
  },

  cedar: async (count) => {
    const policies = containers(count).map(
      (each) =>
        `permit (principal, action == Action::"token:read", resource) when { resource.container like "${each}*" };`,
    );
    const name = `rules-${count}`;
    const parsed = preparsePolicySet(name, { staticPolicies: policies.join('\n') });
    if (parsed.type !== 'success') throw new Error(JSON.stringify(parsed));
    const calls = resources.map(({ id, container }) => ({
      principal: { type: 'App', id: 'app' },
      action: { type: 'Action', id: 'token:read' },
      resource: { type: 'Token', id },
      context: {},
      preparsedPolicySetId: name,
      entities: [{ uid: { type: 'Token', id }, attrs: { container }, parents: [] }],
    }));
    return (at) => {
      const { type, response } = statefulIsAuthorized(calls[at]);
      return type === 'success' && response.decision === 'allow';
    };
  },
};

/** Decisions per second. Throws unless all of them allow. */
function run(ask, milliseconds) {
  const began = performance.now();
  let [done, allowed] = [0, 0];
  for (; performance.now() - began < milliseconds; done += 128)
    for (let call = 0; call < 128; call++) if (ask(call & (resources.length - 1))) allowed++;
  if (allowed !== done) throw new Error(`${name} denied access`);
  return done / ((performance.now() - began) / 1000);
}

const rates = {};
for (const count of [1, 10, 50]) {
  const ask = await peers[name](count);
  run(ask, Number(milliseconds) / 2);
  rates[count] = run(ask, Number(milliseconds));
}
console.log(JSON.stringify(rates));
