/** The access map: which application gets which transform in which container. */
import type { Application } from '../../../sdk/src/sallyport.ts';
import { ruleTitle } from '../access/grants.ts';

export type Transform = 'reveal' | 'mask' | 'redact';
export const transforms = ['reveal', 'mask', 'redact'] as const;

export interface AccessLink {
  readonly application: string;
  readonly container: string;
  readonly transform: Transform;
}

const everywhere = 'all containers';

/** The grants of one permission, without duplicates. Applications in quarantine get `redact` at most. */
export function accessLinks(applications: readonly Application[], permission: string): AccessLink[] {
  const links = new Map<string, AccessLink>();
  for (const { id, rules, permissions, quarantined_at } of applications) {
    const add = (container: string, granted: Transform) => {
      const transform = quarantined_at === undefined ? granted : 'redact';
      links.set(`${id} ${container} ${transform}`, { application: id, container, transform });
    };
    for (const rule of rules) if (rule.permissions.includes(permission)) add(ruleTitle(rule), rule.transform);
    if (permissions.includes(permission)) add(everywhere, 'mask');
  }
  return [...links.values()];
}

export type Column = 'application' | 'container' | 'transform';
export interface Selection {
  readonly column: Column;
  readonly id: string;
}

export interface MapNode {
  readonly id: string;
  readonly count: number;
  /** The riskiest transform of its links. */
  readonly transform: Transform;
}

/** The nodes of a column: riskiest first, then those with the most links. */
export function nodesOf(links: readonly AccessLink[], column: Column): MapNode[] {
  const groups = Map.groupBy(links, (link) => link[column]);
  const nodes = [...groups].map(([id, group]) => ({
    id,
    count: group.length,
    transform: transforms.find((each) => group.some(({ transform }) => transform === each)) as Transform,
  }));
  const risk = ({ transform }: MapNode) => transforms.indexOf(transform);
  return nodes.sort((a, b) => risk(a) - risk(b) || b.count - a.count || (a.id < b.id ? -1 : 1));
}
