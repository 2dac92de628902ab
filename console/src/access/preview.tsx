/** Shows for sample or stored tokens what a key can access, before and after an edit, and why. */
import { Button, SegmentedControl, Select, TextInput } from '@mantine/core';
import { type FormEvent, useMemo, useState } from 'react';
import { describeError } from '../frame/error-notice.tsx';
import { Icon } from '../frame/icons.tsx';
import { type DecisionResult, DecisionTrace, outcomeOf } from './decision-trace.tsx';
import { evaluator, type Resource, sampleResources } from './evaluate.ts';
import type { Grants } from './grants.ts';
import { OutcomeBadge } from './outcome.tsx';
import { tokensPerContainer, useStoredTokens } from './stored-tokens.ts';

interface Props {
  readonly holder: 'application' | 'session';
  readonly before?: Grants | undefined;
  readonly after: Grants;
  readonly ceiling?: Grants | undefined;
}

const tokenPermissions = ['token:read', 'token:create', 'token:update', 'token:delete'];

function permissionsIn({ permissions, rules }: Grants): string[] {
  return [...permissions, ...rules.flatMap((rule) => rule.permissions)];
}

function permissionChoices(before: Grants | undefined, after: Grants): string[] {
  return [
    ...new Set([...tokenPermissions, ...(before ? permissionsIn(before) : []), ...permissionsIn(after)]),
  ];
}

export function Preview({ holder, before, after, ceiling }: Props) {
  const [picked, setPicked] = useState<string>();
  const offered = permissionChoices(before, after);
  const permission =
    picked ?? tokenPermissions.find((name) => permissionsIn(after).includes(name)) ?? 'token:read';
  const [source, setSource] = useState<'samples' | 'real'>('samples');
  const [own, setOwn] = useState<readonly Resource[]>([]);
  const tokens = useStoredTokens(source === 'real', before, after);
  const resources: readonly Resource[] =
    source === 'real'
      ? (tokens.data ?? []).map(({ id, container, max_uses }) => ({ id, container, max_uses }))
      : sampleResources(before, after);
  const decideAfter = useMemo(() => evaluator({ holder, grants: after, ceiling }), [holder, after, ceiling]);
  const decideBefore = useMemo(
    () => before && evaluator({ holder, grants: before, ceiling }),
    [holder, before, ceiling],
  );
  return (
    <section className="preview" aria-label="Access preview">
      <div className="preview-tools">
        <Select
          aria-label="Permission"
          data={offered}
          value={permission}
          onChange={(value) => value && setPicked(value)}
          allowDeselect={false}
        />
        <SegmentedControl
          aria-label="Tokens"
          data={[
            { value: 'samples', label: 'Samples' },
            { value: 'real', label: 'Stored tokens' },
          ]}
          value={source}
          onChange={(value) => setSource(value as 'samples' | 'real')}
        />
      </div>
      {tokens.error !== undefined && <p className="error-text">{describeError(tokens.error).title}.</p>}
      {source === 'real' && tokens.data && (
        <p className="fine">
          {tokens.data.length === 0
            ? 'No tokens visible to the signed-in key. Use samples instead.'
            : `Up to ${tokensPerContainer} tokens of each container that the rules name, then the newest others. Only tokens visible to the signed-in key.`}
        </p>
      )}
      <ul className="resources">
        {[...own, ...resources].map((resource) => (
          <ResourceRow
            key={`${resource.id ?? ''} ${resource.container ?? ''}`}
            resource={resource}
            permission={permission}
            before={decideBefore?.(permission, resource)}
            after={decideAfter(permission, resource)}
          />
        ))}
      </ul>
      <AddResource add={(resource) => setOwn([resource, ...own])} />
    </section>
  );
}

function ruleName({ rule }: DecisionResult): string {
  if (!rule) return 'no matching rule';
  const name = rule.rule === 'permissions' ? 'permissions' : `rule ${rule.rule}`;
  return rule.of === 'authorizer' ? `authorizer’s ${name}` : name;
}

interface ResourceRowProps {
  readonly resource: Resource;
  readonly permission: string;
  readonly before: DecisionResult | undefined;
  readonly after: DecisionResult;
}

function ResourceRow({ resource, permission, before, after }: ResourceRowProps) {
  const [open, setOpen] = useState(false);
  const changed = before && outcomeOf(before) !== outcomeOf(after);
  return (
    <li className={changed ? 'resource resource-changed' : 'resource'}>
      <button type="button" aria-expanded={open} onClick={() => setOpen(!open)}>
        <Icon name={open ? 'down' : 'right'} size={11} />
        <span className="resource-name">
          <code>{resource.container ?? 'no container'}</code>
          {resource.id !== undefined && <small className="mono">{resource.id}</small>}
        </span>
        <span className="resource-rule">{ruleName(after)}</span>
        <span className="resource-outcome">
          {changed && (
            <>
              <span className="was">
                <OutcomeBadge answer={outcomeOf(before)} />
              </span>
              <span aria-hidden="true">→</span>
              <span className="visually-hidden">becomes</span>
            </>
          )}
          <OutcomeBadge answer={outcomeOf(after)} />
        </span>
      </button>
      {open && <DecisionTrace verdict={after} permission={permission} />}
    </li>
  );
}

function AddResource({ add }: { add: (resource: Resource) => void }) {
  const [text, setText] = useState('');
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const value = text.trim();
    if (value === '') return;
    add(value.includes('/') ? { container: value } : { id: value, container: '/general/' });
    setText('');
  };
  return (
    <form className="another" onSubmit={submit}>
      <TextInput
        aria-label="Container or token ID"
        placeholder="Container or token ID"
        value={text}
        onChange={(event) => setText(event.currentTarget.value)}
      />
      <Button type="submit" variant="default">
        Add
      </Button>
    </form>
  );
}
