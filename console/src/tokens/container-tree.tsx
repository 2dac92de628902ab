/** The containers of the loaded tokens, as a collapsible tree. On phones the whole tree is collapsed. */
import { useState } from 'react';
import { formatNumber } from '../frame/format.ts';
import { Icon } from '../frame/icons.tsx';
import type { Branch } from './tree.ts';

interface Props {
  readonly root: Branch;
  readonly chosen: string;
  readonly choose: (path: string) => void;
  /** Whether the counts cover all tokens. */
  readonly complete: boolean;
}

/** Branches with more children than this are collapsed at first. */
const maxOpen = 12;

export function ContainerTree({ root, chosen, choose, complete }: Props) {
  const [openOnPhone, setOpenOnPhone] = useState(false);
  const pick = (path: string) => {
    setOpenOnPhone(false);
    choose(path);
  };
  return (
    <nav className="card tree" aria-label="Containers">
      <button
        type="button"
        className="tree-fold"
        aria-expanded={openOnPhone}
        onClick={() => setOpenOnPhone(!openOnPhone)}
      >
        <Icon name="folder" size={14} />
        <span>{chosen === '/' ? 'All containers' : chosen}</span>
        <Icon name={openOnPhone ? 'up' : 'down'} size={12} />
      </button>
      <div className={openOnPhone ? 'tree-body tree-body-open' : 'tree-body'}>
        <Node branch={root} chosen={chosen} choose={pick} complete={complete} />
      </div>
    </nav>
  );
}

function Node({ branch, chosen, choose, complete }: Omit<Props, 'root'> & { branch: Branch }) {
  const [toggled, setToggled] = useState<boolean>();
  const open =
    toggled ??
    (branch.path === '/' ||
      chosen.startsWith(branch.path) ||
      (branch.depth < 2 && branch.branches.length <= maxOpen));
  return (
    <>
      <div className="tree-line">
        {branch.path === '/' ? null : branch.branches.length > 0 ? (
          <button
            type="button"
            className="tree-toggle"
            aria-expanded={open}
            aria-label={`${branch.path} subcontainers`}
            onClick={() => setToggled(!open)}
          >
            <Icon name={open ? 'down' : 'right'} size={11} />
          </button>
        ) : (
          <span className="tree-toggle" />
        )}
        <button
          type="button"
          className="tree-node"
          aria-current={chosen === branch.path ? 'true' : undefined}
          onClick={() => choose(branch.path)}
        >
          <span>{branch.path === '/' ? 'All containers' : branch.name}</span>
          {complete && <small>{formatNumber(branch.count)}</small>}
        </button>
      </div>
      {open && branch.branches.length > 0 && (
        <ul>
          {branch.branches.map((each) => (
            <li key={each.path}>
              <Node branch={each} chosen={chosen} choose={choose} complete={complete} />
            </li>
          ))}
        </ul>
      )}
    </>
  );
}
