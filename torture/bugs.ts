/** Known bugs to plant. */
import type { Bug } from './bug.ts';
import { durabilityBugs } from './durability-bugs.ts';
import { stolenKeyBugs } from './stolen-key-bugs.ts';

export const bugs: readonly Bug[] = [
  {
    name: 'nothing reserved for a full disk',
    row: 'disk',
    database: 'SQLite',
    changes: [
      {
        file: 'src/db/sqlite/sqlite.ts',
        from: 'export const reservedBytes = 32 * 1024 * 1024;',
        to: 'export const reservedBytes = 0;',
      },
    ],
  },
  {
    name: 'tenant filter dropped',
    row: 'isolation',
    database: 'SQLite',
    changes: [
      {
        file: 'src/store/applications.ts',
        from: 'where a.tenant_id = ${tenant} and a.id = ${id} and ${ownIsValid}',
        to: "where ${tenant} <> '' and a.id = ${id} and ${ownIsValid}",
      },
    ],
  },
  {
    name: 'nonce read before it is spent',
    row: 'nonce-race',
    database: 'PostgreSQL',
    changes: [
      {
        file: 'src/store/sessions.ts',
        from: 'byNonce(owner, nonce)} and sessions.authorized_at is null and',
        to: 'byNonce(owner, nonce)} and',
      },
      {
        file: 'src/store/sessions.ts',
        from: '    authorize: (tenant, nonce,',
        to: '    authorize: async (tenant, nonce,',
      },
      {
        file: 'src/store/sessions.ts',
        from: '      const spent = db.transaction(',
        to: "      const before = await failure(tenant, nonce, authorization.maxLifetime);\n      if (before.outcome === 'used') return before;\n      const spent = db.transaction(",
      },
    ],
  },
  {
    name: 'JWT looked up before it is spent',
    row: 'jwt-race',
    database: 'PostgreSQL',
    changes: [
      {
        file: 'src/store/key-rows.ts',
        from: '  return (await tx.run(spending)) > 0;',
        to: '  const used = sql`select 1 as one from used_jwts where tenant_id = ${tenant} and digest = ${digest}`;\n  if (await tx.get(used)) return false;\n  await tx.run(spending);\n  return true;',
      },
    ],
  },
  {
    name: 'a sign-in does not compare the entry again',
    row: 'console-sessions',
    database: 'PostgreSQL',
    changes: [
      {
        file: 'src/http/endpoints/token-exchange.ts',
        from: '  if (!trusted || current.quarantined_at !== undefined) return undefined;',
        to: '  if (trusted === undefined && current.quarantined_at !== undefined) return undefined;',
      },
    ],
  },
  {
    name: 'use counted without a check of what is left',
    row: 'use-race',
    database: 'PostgreSQL',
    changes: [
      {
        file: 'src/store/sessions.ts',
        from: ' and uses < max_uses and expires_at > :now`',
        to: '`',
      },
    ],
  },
  {
    name: 'request sent before its entry is durable',
    row: 'use-kill',
    database: 'SQLite',
    changes: [
      {
        file: 'src/http/endpoints/proxy.ts',
        from: '      entry = await context.store.change(tenantId, (tx) => commit(call, use, lease, tx), entity);',
        to: `      const { destination, listed: request, tokens } = use;
      const by = { caller: principal, client: call.requestInfo };
      entry = entryOf({ kind: 'use', ...by, destination, request, tokens });
      context.store.change(tenantId, (tx) => commit(call, use, lease, tx), entity).catch(() => {});`,
      },
    ],
  },
  {
    name: 'a stream that fails looks complete',
    row: 'hostile-destinations',
    database: 'SQLite',
    changes: [
      {
        file: 'src/http/endpoints/proxy-stream.ts',
        from: 'controller.error(error)',
        to: 'controller.close()',
      },
    ],
  },
  {
    name: 'the outcome of a stream is recorded before its end',
    row: 'stream-kill',
    database: 'SQLite',
    changes: [
      {
        file: 'src/http/endpoints/proxy-stream.ts',
        from: "    call.requestInfo.keepOpen('always');",
        to: `    await finish(sending, status, undefined);
    call.requestInfo.keepOpen('always');`,
      },
    ],
  },
  {
    name: 'an echo that stops no later use',
    row: 'guesses',
    database: 'SQLite',
    changes: [
      {
        file: 'src/http/endpoints/proxy-use.ts',
        from: '  if (tokens.length === 0) return;',
        to: '  if (tokens.length >= 0) return;',
      },
    ],
  },
  {
    name: 'a destination without a separate limit',
    row: 'slow-destination',
    database: 'SQLite',
    changes: [
      {
        file: 'src/outbound/limits.ts',
        from: 'const maxPerTenant = 1250;',
        to: 'const maxPerTenant = 80;',
      },
      {
        file: 'src/outbound/limits.ts',
        from: '  return Math.max(destination, application) < 4 * ofTenant &&',
        to: '  return ofTenant > 0 &&',
      },
    ],
  },
  {
    name: 'version compared without a lock on the row',
    row: 'if-match-race',
    database: 'PostgreSQL',
    changes: [
      {
        file: 'src/store/applications.ts',
        from: "rowLock(tx, 'for no key update')",
        to: "rowLock(tx, 'for no key update').slice(0, 0)",
      },
    ],
  },
  {
    name: 'keys cached for 5 seconds',
    row: 'revocations',
    database: 'PostgreSQL',
    changes: [
      {
        file: 'src/http/admit.ts',
        from: '  return then(credentials.find(applicant.key), (found) => {\n',
        to: `  const name = applicant.key.digest.toString('hex');
  const cached = cache.get(name);
  const found = cached && performance.now() - cached.at < 5000 ? cached.found : credentials.find(applicant.key);
  return then(found, (found) => {
    if (found && found !== cached?.found) cache.set(name, { at: performance.now(), found });
`,
      },
      {
        file: 'src/http/admit.ts',
        from: '/** A request with a well-formed key. */\n',
        to: 'const cache = new Map<string, { at: number; found: Principal }>();\n\n/** A request with a well-formed key. */\n',
      },
    ],
  },
  ...durabilityBugs,
  {
    name: 'containers compared without their last slash',
    row: 'histories',
    database: 'SQLite',
    changes: [
      {
        file: 'src/domain/rule.ts',
        from: "return opened.endsWith('/') ? opened :",
        to: "return opened.length > 1 ? opened.replace(/[/]$/, '') : opened.endsWith('/') ? opened :",
      },
    ],
  },
  {
    name: 'key logged',
    row: 'secrets',
    database: 'SQLite',
    changes: [
      {
        file: 'src/http/admit.ts',
        from: "  if (!key || (key.kind === 'con') !== onConsole) throw fail('unauthenticated');\n",
        to: "  if (!key || (key.kind === 'con') !== onConsole) throw fail('unauthenticated');\n  process.stderr.write(headers.get('svc-api-key') + '\\n');\n",
      },
    ],
  },
  {
    name: 'ceiling ignored',
    row: 'revocations',
    database: 'SQLite',
    changes: [
      {
        file: 'src/store/credentials.ts',
        from: 'permissions === null || rules === null ? undefined',
        to: 'permissions !== undefined ? undefined',
      },
    ],
  },
  {
    name: 'quarantine does not cover sessions without a ceiling',
    row: 'revocations',
    database: 'PostgreSQL',
    changes: [
      {
        file: 'src/store/credentials.ts',
        from: 'c.quarantined_at as authorizer_quarantined_at',
        to: "${ofCeiling('quarantined_at')} as authorizer_quarantined_at",
      },
    ],
  },
  {
    name: 'credential valid at its expiry time',
    row: 'histories',
    database: 'PostgreSQL',
    changes: [
      {
        file: 'src/store/applications.ts',
        from: '.expires_at > :now)`',
        to: '.expires_at >= :now)`',
      },
    ],
  },
  {
    name: 'audit entry outside the transaction',
    row: 'storage-faults',
    database: 'SQLite',
    changes: [
      {
        file: 'src/http/run-change.ts',
        from: "tx.record(entryOf({ kind: 'change', ...by, ...changed }));",
        to: "setTimeout(() => context.store.audit.write([entryOf({ kind: 'change', ...by, ...changed })]).catch(() => {}));",
      },
    ],
  },
  {
    name: 'plaintext is sent before the entry is durable',
    row: 'disclosures',
    database: 'PostgreSQL',
    changes: [
      {
        file: 'src/http/turn.ts',
        from: '    if (written) await written; // 503\n',
        to: '    written?.catch(() => {});\n',
      },
    ],
  },
  {
    name: 'no escalation check on update',
    row: 'escalation',
    database: 'SQLite',
    changes: [
      {
        file: 'src/http/endpoints/application-update.ts',
        from: '  denyEscalation(principal, current, body);\n',
        to: '',
      },
    ],
  },
  {
    name: 'session moves tokens beyond its ceiling',
    row: 'token-moves',
    database: 'SQLite',
    changes: [
      {
        file: 'src/domain/principal.ts',
        from: '  if (isHandedOut(principal)) return true;\n',
        to: '',
      },
    ],
  },
  {
    name: 'mask computed over hidden data',
    row: 'token-moves',
    database: 'PostgreSQL',
    changes: [
      {
        file: 'src/domain/principal.ts',
        from: '  if (renders || merges) return true;\n',
        to: '',
      },
    ],
  },
  {
    name: 'lists without a scan budget',
    row: 'expensive-requests',
    database: 'SQLite',
    changes: [
      {
        file: 'src/store/lists/page.ts',
        from: 'export const scanBudget = 2_000;',
        to: 'export const scanBudget = 2_000_000_000;',
      },
      {
        file: 'src/store/lists/page.ts',
        from: 'export const countBudget = 10_000;',
        to: 'export const countBudget = 2_000_000_000;',
      },
    ],
  },
  {
    name: 'a server that is behind is used',
    row: 'old-primary',
    database: 'PostgreSQL',
    changes: [
      {
        file: 'src/domain/database-position.ts',
        from: 'return found.era < seen.era || found.timeline < seen.timeline || found.beat < seen.beat;',
        to: 'return false;',
      },
    ],
  },
  {
    name: 'a killed worker is not replaced',
    row: 'workers',
    database: 'SQLite',
    changes: [
      {
        file: 'src/cli/commands/serve.ts',
        from: 'if (watching && !isStopping) replace(number, { code, signal });',
        to: 'if (!watching && !isStopping) replace(number, { code, signal });',
      },
    ],
  },
  {
    name: 'too many connections are an internal error',
    row: 'postgres-outages',
    database: 'PostgreSQL',
    changes: [
      {
        file: 'src/db/postgres/postgres-errors.ts',
        from: '|42501|53|55|',
        to: '|42501|53100|55|',
      },
    ],
  },
  {
    name: 'revocations after the restore point are not repeated',
    row: 'point-in-time',
    database: 'PostgreSQL',
    changes: [
      {
        file: 'src/cli/commands/recover.ts',
        from: 'at: Date.now() }, revoked ? revived : none)',
        to: 'at: Date.now() }, none)',
      },
    ],
  },
  {
    name: 'long computations without pauses',
    row: 'stalls',
    database: 'SQLite',
    changes: [
      {
        file: 'src/http/pipeline/long-work.ts',
        from: 'if (step.done || this.#turns.now() >= end) return step.done === true;',
        to: 'if (step.done) return true;',
      },
    ],
  },
  {
    name: 'masked values searched with String.includes',
    row: 'stalls',
    database: 'SQLite',
    changes: [
      {
        file: 'src/domain/text-search.ts',
        from: 'return bytes.indexOf(text) >= 0;',
        to: 'return bytes.toString().includes(text);',
      },
    ],
  },
  {
    name: 'replies normalized without a limit',
    row: 'stalls',
    database: 'SQLite',
    changes: [
      {
        file: 'src/domain/echoes.ts',
        from: "Buffer.from(values.join('\\n'))",
        to: "Buffer.from(values.join('\\n').normalize('NFKD'))",
      },
    ],
  },
  {
    name: 'no limit on chunks',
    row: 'stalls',
    database: 'SQLite',
    changes: [
      {
        file: 'src/domain/received-bytes.ts',
        from: 'isTooLarge || areTooSmall(++parts, bytes)',
        to: 'isTooLarge || areTooSmall(parts, bytes)',
      },
    ],
  },
  {
    name: 'no limit on the fields of a form',
    row: 'stalls',
    database: 'SQLite',
    changes: [
      {
        file: 'src/domain/form.ts',
        from: 'if (++fields > maxFormFields) return undefined;',
        to: 'fields++;',
      },
    ],
  },
  {
    name: 'unconfirmed batches count as delivered',
    row: 'sinks',
    database: 'SQLite',
    changes: [
      {
        file: 'src/audit/delivery.ts',
        from: 'receipt = await sender.send(batch, this.#stopped);',
        to: 'receipt = await sender.send(batch, this.#stopped).catch(() => ({}));',
      },
    ],
  },
  {
    name: 'application deleted together with all its sessions',
    row: 'delete-while-large',
    database: 'PostgreSQL',
    changes: [
      {
        file: 'src/store/applications.ts',
        from: 'sql`update applications set expires_at = 0 where',
        to: 'sql`delete from applications where',
      },
    ],
  },
  {
    name: 'more audit entries deleted than archived',
    row: 'retention',
    database: 'SQLite',
    changes: [
      {
        file: 'src/audit/proof/retention.ts',
        from: 'delete from audit_segments where tenant_id = ${tenantId} and number = ${number}',
        to: 'delete from audit_segments where tenant_id = ${tenantId} and number >= ${number} and number <= ${number + 5}',
      },
    ],
  },
  ...stolenKeyBugs,
];
