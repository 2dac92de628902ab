/** What would this key see? Of places, one by one: before and after, and why. */
import { Button, SegmentedControl, Select, TextInput } from '@mantine/core';
import { type FormEvent, useMemo, useState } from 'react';
import { Icon } from '../frame/icons.tsx';
import { useLoad } from '../frame/load.ts';
import { advice } from '../frame/problem.tsx';
import { useSignedIn } from '../frame/signed-in.ts';
import type { Grants } from './grants.ts';
import { judge, type Resource, samplesOf } from './judge.ts';
import { answerOf, Ladder, type Verdict } from './ladder.tsx';
import { Outcome } from './outcome.tsx';

interface Props {
  readonly holder: 'application' | 'session';
  readonly before?: Grants | undefined;
  readonly after: Grants;
  readonly ceiling?: Grants | undefined;
}

const usual = ['token:read', 'token:create', 'token:update', 'token:delete'];
const mostTokens = 100;

function namedIn({ permissions, rules }: Grants): string[] {
  return [...permissions, ...rules.flatMap((rule) => rule.permissions)];
}

function permissionsOf(before: Grants | undefined, after: Grants): string[] {
  return [...new Set([...usual, ...(before ? namedIn(before) : []), ...namedIn(after)])];
}

function useTokens(wanted: boolean) {
  const { api } = useSignedIn();
  return useLoad(`tokens-${wanted}`, async (signal) =>
    wanted ? (await api.tokens.list({ size: mostTokens }, { signal })).data : undefined,
  );
}

export function Preview({ holder, before, after, ceiling }: Props) {
  const [picked, setPicked] = useState<string>();
  const offered = permissionsOf(before, after);
  const permission = picked ?? usual.find((name) => namedIn(after).includes(name)) ?? 'token:read';
  const [source, setSource] = useState<'samples' | 'real'>('samples');
  const [own, setOwn] = useState<readonly Resource[]>([]);
  const tokens = useTokens(source === 'real');
  const resources: readonly Resource[] =
    source === 'real'
      ? (tokens.data ?? []).map(({ id, container }) => ({ id, container }))
      : samplesOf(before, after);
  const decideAfter = useMemo(() => judge({ holder, grants: after, ceiling }), [holder, after, ceiling]);
  const decideBefore = useMemo(
    () => before && judge({ holder, grants: before, ceiling }),
    [holder, before, ceiling],
  );
  return (
    <section className="preview" aria-label="What would this key see?">
      <div className="preview-tools">
        <Select
          aria-label="Permission"
          data={offered}
          value={permission}
          onChange={(value) => value && setPicked(value)}
          allowDeselect={false}
        />
        <SegmentedControl
          aria-label="Which Tokens"
          data={[
            { value: 'samples', label: 'Samples' },
            { value: 'real', label: 'Real Tokens' },
          ]}
          value={source}
          onChange={(value) => setSource(value as 'samples' | 'real')}
        />
      </div>
      {tokens.error !== undefined && <p className="complaint">{advice(tokens.error).title}.</p>}
      {source === 'real' && tokens.data?.length === 0 && (
        <p className="fine">There are no Tokens yet that this key may see. Look at samples instead.</p>
      )}
      <ul className="places">
        {[...own, ...resources].map((resource) => (
          <Place
            key={`${resource.id ?? ''} ${resource.container ?? ''}`}
            resource={resource}
            permission={permission}
            before={decideBefore?.(permission, resource)}
            after={decideAfter(permission, resource)}
          />
        ))}
      </ul>
      <Another add={(resource) => setOwn([resource, ...own])} />
    </section>
  );
}

function ruleName({ rule }: Verdict): string {
  if (!rule) return 'no rule';
  const name = rule.rule === 'permissions' ? 'plain permissions' : `rule ${rule.rule}`;
  return rule.of === 'authorizer' ? `authorizer’s ${name}` : name;
}

interface PlaceProps {
  readonly resource: Resource;
  readonly permission: string;
  readonly before: Verdict | undefined;
  readonly after: Verdict;
}

function Place({ resource, permission, before, after }: PlaceProps) {
  const [open, setOpen] = useState(false);
  const changed = before && answerOf(before) !== answerOf(after);
  return (
    <li className={changed ? 'place place-changed' : 'place'}>
      <button type="button" aria-expanded={open} onClick={() => setOpen(!open)}>
        <Icon name={open ? 'down' : 'right'} size={11} />
        <span className="place-name">
          <code>{resource.container ?? 'no container'}</code>
          {resource.id !== undefined && <small className="mono">{resource.id}</small>}
        </span>
        <span className="place-rule">{ruleName(after)}</span>
        <span className="place-answer">
          {changed && (
            <>
              <span className="was">
                <Outcome answer={answerOf(before)} />
              </span>
              <span aria-hidden="true">→</span>
              <span className="unseen">becomes</span>
            </>
          )}
          <Outcome answer={answerOf(after)} />
        </span>
      </button>
      {open && <Ladder verdict={after} permission={permission} />}
    </li>
  );
}

function Another({ add }: { add: (resource: Resource) => void }) {
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
        aria-label="Another container, or the id of a Token"
        placeholder="Another container such as /pci/high/, or an id"
        value={text}
        onChange={(event) => setText(event.currentTarget.value)}
      />
      <Button type="submit" variant="default">
        Look
      </Button>
    </form>
  );
}
