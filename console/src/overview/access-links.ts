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

export const everywhere = 'all containers';

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

/** A part of the map: the containers directly below a path, each with everything below it. */
export interface Part {
  readonly links: readonly AccessLink[];
  /** The containers that a group stands for. */
  readonly members: ReadonlyMap<string, ReadonlySet<string>>;
}

/** The group of a container below `at`. Containers above it apply there, too. Undefined if it is elsewhere. */
function groupOf(container: string, at: string): string | undefined {
  const path = container.toLowerCase();
  if (container === everywhere || at.startsWith(path)) return container;
  if (!path.startsWith(at)) return undefined;
  return path.slice(0, path.indexOf('/', at.length) + 1);
}

export function groupedBelow(links: readonly AccessLink[], at: string): Part {
  const grouped = new Map<string, AccessLink>();
  const members = new Map<string, Set<string>>();
  for (const link of links) {
    const container = groupOf(link.container, at);
    if (container === undefined) continue;
    grouped.set(`${link.application} ${container} ${link.transform}`, { ...link, container });
    const known = members.get(container) ?? new Set();
    members.set(container, known.add(link.container.toLowerCase()));
  }
  return { links: [...grouped.values()], members };
}

export interface Shown {
  readonly links: readonly AccessLink[];
  readonly applications: readonly MapNode[];
  readonly containers: readonly MapNode[];
  /** Containers of these applications that one node stands for. */
  readonly mergedContainers: number;
}

/** The id of the node for all containers that are not shown separately. */
export const otherContainers = 'other containers';

/**
 * The riskiest applications with all of their links, so that each has a line: containers beyond the limit share a node.
 */
export function coherentPart(
  links: readonly AccessLink[],
  limits: { readonly applications: number; readonly containers: number },
): Shown {
  const applications = nodesOf(links, 'application').slice(0, limits.applications);
  const ids = new Set(applications.map(({ id }) => id));
  const connected = links.filter(({ application }) => ids.has(application));
  const all = nodesOf(connected, 'container');
  const kept = new Set(all.slice(0, limits.containers - 1).map(({ id }) => id));
  const isMerged = all.length > limits.containers;
  const shown = isMerged
    ? connected.map((link) => (kept.has(link.container) ? link : { ...link, container: otherContainers }))
    : connected;
  // Each container is about as high as the first application that has access to it, so that few lines cross.
  const rows = new Map(applications.map(({ id }, row) => [id, row]));
  const first = new Map<string, number>([[otherContainers, limits.applications]]);
  for (const { application, container } of shown) {
    const row = rows.get(application) ?? 0;
    if (row < (first.get(container) ?? Number.POSITIVE_INFINITY) && container !== otherContainers)
      first.set(container, row);
  }
  const containers = nodesOf(shown, 'container').sort(
    (a, b) => (first.get(a.id) ?? 0) - (first.get(b.id) ?? 0),
  );
  return { links: shown, applications, containers, mergedContainers: isMerged ? all.length - kept.size : 0 };
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
