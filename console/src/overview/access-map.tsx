/** A graph of applications, containers and transforms. Choose a node to see only what is connected to it. */
import { Button, Select } from '@mantine/core';
import { useDeferredValue, useMemo, useState } from 'react';
import { OutcomeBadge } from '../access/outcome.tsx';
import { maxNewest, useNewestApplications } from '../applications/application-store.ts';
import { QuarantineTag } from '../applications/quarantine.tsx';
import { Scrollable } from '../charts/scrollable.tsx';
import { describeError } from '../frame/error-notice.tsx';
import { formatNumber, plural, shortId } from '../frame/format.ts';
import { href } from '../frame/route.ts';
import { useSignedIn } from '../frame/signed-in.ts';
import {
  type AccessLink,
  accessLinks,
  type Column,
  coherentPart,
  groupedBelow,
  type MapNode,
  nodesOf,
  otherContainers,
  type Part,
  type Selection,
  type Shown,
  type Transform,
} from './access-links.ts';

const rowHeight = 32;
/** Nodes of a column at first. The user can show more. */
const maxNodes = 14;
const maxTableRows = 200;
/** Maximum number of applications on the map while the list loads, because each page draws the map again. */
const maxWhileLoading = 100;
const permissions = ['token:read', 'token:create', 'token:update', 'token:delete'];
const columns: readonly [Column, string][] = [
  ['application', 'Applications'],
  ['container', 'Containers'],
  ['transform', 'Transforms'],
];

export function AccessMap() {
  const { list, complete, hasMore, error } = useNewestApplications(useSignedIn().applications);
  const [permission, setPermission] = useState('token:read');
  const [selection, setSelection] = useState<Selection>();
  const [at, setAt] = useState('/');
  const [limit, setLimit] = useState(maxNodes);
  const all = useDeferredValue(complete ? list : list.slice(0, maxWhileLoading));
  const isWhole = complete && all === list;
  const links = useMemo(() => accessLinks(all, permission), [all, permission]);
  const part = useMemo(() => groupedBelow(links, at), [links, at]);
  const connected = useMemo(
    () => (selection ? part.links.filter((link) => link[selection.column] === selection.id) : part.links),
    [part, selection],
  );
  const shown = useMemo(
    () => coherentPart(connected, { applications: limit, containers: limit }),
    [connected, limit],
  );
  const count = nodesOf(connected, 'application').length;
  const show = (next: { at?: string; permission?: string }) => {
    setAt(next.at ?? '/');
    setPermission(next.permission ?? permission);
    setSelection(undefined);
    setLimit(maxNodes);
  };
  const choose = (column: Column, id: string) => {
    if (id === otherContainers) return setLimit(limit + maxNodes);
    setSelection(selection?.column === column && selection.id === id ? undefined : { column, id });
  };
  return (
    <section className="card access-map" aria-label="Access map">
      <div className="panel-head">
        <h2>Access map</h2>
        <Select
          aria-label="Permission"
          data={permissions}
          value={permission}
          allowDeselect={false}
          onChange={(value) => show({ permission: value ?? 'token:read' })}
        />
      </div>
      {links.length === 0 ? (
        isWhole && (
          <p className="fine">
            {error === undefined ? (
              <>
                {hasMore ? `None of the newest ${formatNumber(maxNewest)} applications` : 'No application'}{' '}
                has <code>{permission}</code>.
              </>
            ) : (
              `${describeError(error).title}.`
            )}
          </p>
        )
      ) : (
        <>
          <Path at={at} open={(path) => show({ at: path })} />
          <Graph shown={shown} members={part.members} selection={selection} choose={choose} />
          {selection && (
            <Details
              selection={selection}
              links={connected}
              zoom={isGroup(part.members, selection) ? () => show({ at: selection.id }) : undefined}
              clear={() => setSelection(undefined)}
            />
          )}
          <p className="map-details">
            <span className="fine">
              {count > shown.applications.length
                ? `The ${formatNumber(shown.applications.length)} riskiest of ${plural(count, 'application')}`
                : plural(count, 'application')}
              {hasMore && `, of the newest ${formatNumber(maxNewest)}`}
            </span>
            {count > shown.applications.length && (
              <Button variant="default" size="compact-xs" onClick={() => setLimit(limit + maxNodes)}>
                Show more
              </Button>
            )}
          </p>
          <LinkTable links={connected} />
        </>
      )}
    </section>
  );
}

/** Whether the selected container stands for containers below it. */
function isGroup(members: Part['members'], { column, id }: Selection): boolean {
  return column === 'container' && [...(members.get(id) ?? [])].some((path) => path !== id);
}

/** The containers above those on the map. */
function Path({ at, open }: { at: string; open: (path: string) => void }) {
  if (at === '/') return null;
  const names = at.split('/').filter(Boolean);
  return (
    <nav className="map-path" aria-label="Containers above">
      <Button variant="default" size="compact-xs" onClick={() => open('/')}>
        All containers
      </Button>
      {names.map((name, index) => {
        const path = `/${names.slice(0, index + 1).join('/')}/`;
        return path === at ? (
          <code key={path}>{path}</code>
        ) : (
          <Button key={path} variant="default" size="compact-xs" onClick={() => open(path)}>
            {name}
          </Button>
        );
      })}
    </nav>
  );
}

interface GraphProps {
  readonly shown: Shown;
  readonly members: Part['members'];
  readonly selection: Selection | undefined;
  readonly choose: (column: Column, id: string) => void;
}

function Graph({ shown, members, selection, choose }: GraphProps) {
  const { links, applications, containers, mergedContainers } = shown;
  const outcomes = useMemo(() => nodesOf(links, 'transform'), [links]);
  const nodes = [applications, containers, outcomes];
  const height = Math.max(...nodes.map(({ length }) => length)) * rowHeight;
  return (
    <div className="map">
      {columns.map(([column, label], index) => (
        <div key={column} className={`map-column map-${column}`}>
          <h3>{label}</h3>
          <ul>
            {nodes[index]?.map((node) => (
              <li key={node.id}>
                <button
                  type="button"
                  aria-pressed={selection?.column === column && selection.id === node.id}
                  onClick={() => choose(column, node.id)}
                >
                  {node.id === otherContainers ? (
                    <span className="map-name">{plural(mergedContainers, 'other container')}</span>
                  ) : (
                    <NodeLabel column={column} id={node.id} />
                  )}
                  {column === 'container' && isGroup(members, { column, id: node.id }) && (
                    <small className="faint">{plural(members.get(node.id)?.size ?? 0, 'container')}</small>
                  )}
                  {column !== 'transform' && <i className={`map-dot share-${node.transform}`} />}
                </button>
              </li>
            ))}
          </ul>
        </div>
      ))}
      <Edges
        className="map-edges-1"
        height={height}
        edges={edgesOf(links, applications, 'application', containers, 'container')}
      />
      <Edges
        className="map-edges-2"
        height={height}
        edges={edgesOf(links, containers, 'container', outcomes, 'transform')}
      />
    </div>
  );
}

function NodeLabel({ column, id }: { column: Column; id: string }) {
  const { byId } = useNewestApplications(useSignedIn().applications);
  if (column === 'transform') return <OutcomeBadge answer={id as Transform} />;
  if (column === 'container') return <code>{id}</code>;
  const application = byId.get(id);
  return (
    <span className="map-name">
      <bdi>{application?.name ?? shortId(id)}</bdi>
      <QuarantineTag since={application?.quarantined_at} />
    </span>
  );
}

interface Edge {
  readonly from: number;
  readonly to: number;
  readonly transform: Transform;
}

function edgesOf(
  links: readonly AccessLink[],
  left: readonly MapNode[],
  leftColumn: Column,
  right: readonly MapNode[],
  rightColumn: Column,
): Edge[] {
  const leftAt = new Map(left.map(({ id }, index) => [id, index]));
  const rightAt = new Map(right.map(({ id }, index) => [id, index]));
  const edges = new Map<string, Edge>();
  for (const link of links) {
    const [from, to] = [leftAt.get(link[leftColumn]), rightAt.get(link[rightColumn])];
    if (from === undefined || to === undefined) continue;
    edges.set(`${from} ${to} ${link.transform}`, { from, to, transform: link.transform });
  }
  return [...edges.values()];
}

function Edges({ className, height, edges }: { className: string; height: number; edges: readonly Edge[] }) {
  const y = (index: number) => (index + 0.5) * rowHeight;
  return (
    <svg
      className={`map-edges ${className}`}
      viewBox={`0 0 100 ${height}`}
      preserveAspectRatio="none"
      style={{ height }}
      aria-hidden="true"
    >
      {edges.map(({ from, to, transform }) => (
        <path
          key={`${from} ${to} ${transform}`}
          className={`edge edge-${transform}`}
          d={`M0 ${y(from)}C50 ${y(from)} 50 ${y(to)} 100 ${y(to)}`}
        />
      ))}
    </svg>
  );
}

interface DetailsProps {
  readonly selection: Selection;
  readonly links: readonly AccessLink[];
  /** Undefined if the selected container has none below it. */
  readonly zoom: (() => void) | undefined;
  readonly clear: () => void;
}

function Details({ selection: { column, id }, links, zoom, clear }: DetailsProps) {
  const [applications, containers] = [nodesOf(links, 'application'), nodesOf(links, 'container')];
  return (
    <p className="map-details" role="status">
      <NodeLabel column={column} id={id} />
      <span className="fine">
        {column !== 'application' && `${plural(applications.length, 'application')} `}
        {column !== 'container' && plural(containers.length, 'container')}
      </span>
      {column === 'application' && (
        <a className="link" href={href('applications', id)}>
          Open application
        </a>
      )}
      {column === 'container' && id.startsWith('/') && (
        <a className="link" href={`${href('who')}?${new URLSearchParams({ q: id })}`}>
          Who has access?
        </a>
      )}
      {zoom && (
        <Button variant="default" size="compact-xs" onClick={zoom}>
          Zoom in
        </Button>
      )}
      <Button variant="default" size="compact-xs" onClick={clear}>
        Show all
      </Button>
    </p>
  );
}

function LinkTable({ links }: { links: readonly AccessLink[] }) {
  const { byId } = useNewestApplications(useSignedIn().applications);
  const [open, setOpen] = useState(false);
  return (
    <details className="chart-table" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>Show as table</summary>
      {open && (
        <Scrollable label="Access map as table">
          <table>
            <thead>
              <tr>
                <th scope="col">Application</th>
                <th scope="col">Container</th>
                <th scope="col">Transform</th>
              </tr>
            </thead>
            <tbody>
              {links.slice(0, maxTableRows).map(({ application, container, transform }) => (
                <tr key={`${application} ${container} ${transform}`}>
                  <th scope="row">
                    <bdi>{byId.get(application)?.name ?? shortId(application)}</bdi>
                  </th>
                  <td>{container}</td>
                  <td>{transform}</td>
                </tr>
              ))}
            </tbody>
          </table>
          {links.length > maxTableRows && (
            <p className="fine">and {formatNumber(links.length - maxTableRows)} more</p>
          )}
        </Scrollable>
      )}
    </details>
  );
}
