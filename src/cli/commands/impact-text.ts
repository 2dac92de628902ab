/** The impact of planned updates, for `sallyport apply --plan`. */
import { type Impact, PermissionError } from '../../../sdk/src/sallyport.ts';
import type { Call } from '../command.ts';
import { showProgress } from '../terminal/print.ts';
import { type Plan, updateBody } from './plan.ts';

/** The impact of each update, by application id. Without `access:review`, prints a hint and returns an empty map. */
export async function readImpacts({ service, terminal }: Call, plan: Plan): Promise<Map<string, Impact>> {
  const impacts = new Map<string, Impact>();
  const progress = showProgress(terminal);
  try {
    for (const { current, wanted } of plan.update) {
      impacts.set(current.id, await service.applications.preview(current.id, updateBody(wanted)));
      progress.update(`impact of ${impacts.size} of ${plan.update.length} updates computed`);
    }
  } catch (error) {
    if (!(error instanceof PermissionError)) throw error;
    terminal.writeError(`sallyport: hint: the impact of the updates is not shown: ${error.problem.detail}\n`);
  } finally {
    progress.clear();
  }
  return impacts;
}

/** One sentence per change of tokens, sessions and recorded reads. */
export function impactText({ sessions, tokens, reads, quarantined }: Impact): string[] {
  const lines = [
    ...tokens.data.map(({ permission, container, from, to, count }) => {
      const some = number(count, tokens.complete, 'token');
      return `${some} in ${container} ${verb(count)} from ${from} to ${to}${forPermission(permission)}`;
    }),
    ...(sessions.count > 0 || !sessions.complete
      ? [`${number(sessions.count, sessions.complete, 'active session')} ${verb(sessions.count)}`]
      : []),
    ...reads.data.map(({ permission, from, to, count, applications }) => {
      const some = number(count, reads.complete, 'read');
      const by = number(applications, true, 'application');
      return `${some} by ${by} ${verb(count)} from ${from} to ${to}${forPermission(permission)}`;
    }),
  ];
  if (reads.undecided > 0) lines.push(`${number(reads.undecided, true, 'read')}: too little is recorded`);
  if (reads.recorded !== 'all') lines.push(missingReads[reads.recorded]);
  if (quarantined) lines.push('in quarantine: this is the impact after the release');
  return lines;
}

const missingReads = {
  reveal: 'masked reads are not recorded (SALLYPORT_AUDIT_READS=reveal)',
  off: 'reads are not recorded (SALLYPORT_AUDIT_READS=off)',
};

function number(count: number, isComplete: boolean, noun: string): string {
  return `${isComplete ? '' : 'at least '}${count} ${noun}${count === 1 ? '' : 's'}`;
}

function verb(count: number): string {
  return count === 1 ? 'changes' : 'change';
}

function forPermission(permission: string): string {
  return permission === 'token:read' ? '' : ` for ${permission}`;
}
