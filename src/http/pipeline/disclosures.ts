/** The events of a reply with token data, for the audit log. */
import type { RecordedEvent } from '../../audit/trail.ts';
import type { Principal } from '../../domain/principal.ts';
import type { RequestInfo } from './request-info.ts';
import type { Reply, Report } from './route.ts';

export function disclosureEvents(
  operation: string,
  { disclosures = [], search, report }: Pick<Reply, 'disclosures' | 'search' | 'report'>,
  caller: Principal,
  client: RequestInfo,
): RecordedEvent[] {
  // A response to HEAD has no body, so it discloses nothing.
  if (client.method === 'HEAD') return [];
  const by = { caller, client, operation };
  if (search) {
    // An entry for each transform of the tokens that were found, or one if none was.
    const found = disclosures.length > 0 ? disclosures : [undefined];
    return found.map((disclosure) => ({ kind: 'search', ...by, search, disclosure }));
  }
  const events = disclosures.map((disclosure): RecordedEvent => {
    return { kind: disclosure.transform === 'reveal' ? 'disclosure' : 'read', ...by, disclosure };
  });
  return report ? [...events, ...reportedEvents(report, caller, client)] : events;
}

function reportedEvents(
  { actor, operation, purpose, disclosures, denials }: Report,
  caller: Principal,
  client: RequestInfo,
): RecordedEvent[] {
  const by = { caller, client, actor, operation, purpose };
  const denied = { reason: 'permission_missing', reportedBy: caller.applicationId };
  return [
    ...denials.map((denial) => ({ kind: 'denial', ...by, ...denied, ...denial }) as const),
    ...disclosures.map((disclosure) => ({ kind: 'report', ...by, disclosure }) as const),
  ];
}
