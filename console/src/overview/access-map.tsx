/** A graph of applications, containers and transforms. Choose a node to see only what is connected to it. */
import { Button, Select } from '@mantine/core';
import { useDeferredValue, useMemo, useState } from 'react';
import { OutcomeBadge } from '../access/outcome.tsx';
import { useNewestApplications } from '../applications/application-store.ts';
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
  type MapNode,
  nodesOf,
  type Selection,
  type Transform,
} from './access-links.ts';

const rowHeight = 32;
/** Maximum number of nodes per column. Other nodes appear when the user chooses a node connected to them. */
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
  const { list, complete, error } = useNewestApplications(useSignedIn().applications);
  const [permission, setPermission] = useState('token:read');
  const [selection, setSelection] = useState<Selection>();
  const all = useDeferredValue(complete ? list : list.slice(0, maxWhileLoading));
  const links = useMemo(() => accessLinks(all, permission), [all, permission]);
  const connected = useMemo(
    () => (selection ? links.filter((link) => link[selection.column] === selection.id) : links),
    [links, selection],
  );
  const choose = (column: Column, id: string) =>
    setSelection(selection?.column === column && selection.id === id ? undefined : { column, id });
  return (
    <section className="card access-map" aria-label="Access map">
      <div className="panel-head">
        <h2>Access map</h2>
        <Select
          aria-label="Permission"
          data={permissions}
          value={permission}
          allowDeselect={false}
          onChange={(value) => {
            setPermission(value ?? 'token:read');
            setSelection(undefined);
          }}
        />
      </div>
      {links.length === 0 ? (
        <p className="fine">
          {error === undefined ? (
            <>
              No application has <code>{permission}</code>.
            </>
          ) : (
            `${describeError(error).title}.`
          )}
        </p>
      ) : (
        <>
          <Graph links={connected} selection={selection} choose={choose} />
          {selection && (
            <Details selection={selection} links={connected} clear={() => setSelection(undefined)} />
          )}
          <LinkTable links={connected} />
        </>
      )}
    </section>
  );
}

interface GraphProps {
  readonly links: readonly AccessLink[];
  readonly selection: Selection | undefined;
  readonly choose: (column: Column, id: string) => void;
}

function Graph({ links, selection, choose }: GraphProps) {
  const nodes = useMemo(
    () => columns.map(([column]) => nodesOf(links, column)) as [MapNode[], MapNode[], MapNode[]],
    [links],
  );
  const [applications, containers, outcomes] = nodes.map((each) => each.slice(0, maxNodes)) as typeof nodes;
  const height = Math.max(applications.length, containers.length, outcomes.length) * rowHeight;
  return (
    <div className="map">
      {columns.map(([column, label], index) => (
        <div key={column} className={`map-column map-${column}`}>
          <h3>{label}</h3>
          <ul>
            {[applications, containers, outcomes][index]?.map((node) => (
              <li key={node.id}>
                <button
                  type="button"
                  aria-pressed={selection?.column === column && selection.id === node.id}
                  onClick={() => choose(column, node.id)}
                >
                  <NodeLabel column={column} id={node.id} />
                  {column !== 'transform' && <i className={`map-dot share-${node.transform}`} />}
                </button>
              </li>
            ))}
          </ul>
          {(nodes[index]?.length ?? 0) > maxNodes && (
            <p className="fine">and {formatNumber((nodes[index]?.length ?? 0) - maxNodes)} more</p>
          )}
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
  readonly clear: () => void;
}

function Details({ selection: { column, id }, links, clear }: DetailsProps) {
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
