/** Editor for one rule. */
import { ActionIcon, Button, SegmentedControl, Select, Textarea, TextInput, Tooltip } from '@mantine/core';
import { useState } from 'react';
import type { AccessRule, AccessRuleCondition } from '../../../sdk/src/sallyport.ts';
import { destinationName, useDestinations } from '../destinations/stored.ts';
import { Icon } from '../frame/icons.tsx';
import { TimeInput } from '../frame/time-input.tsx';
import { newCondition, type Owner } from './grants.ts';
import { outcomeIn } from './outcome.tsx';
import { PermissionSelect } from './permission-select.tsx';

interface Props {
  readonly owner: Owner;
  readonly rule: AccessRule;
  readonly number: number;
  readonly errors: (field: string) => string | undefined;
  readonly change: (rule: AccessRule) => void;
  readonly remove: () => void;
}

const common = ['token:read', 'token:create', 'token:update', 'token:delete'];
const transforms = [
  { value: 'redact', label: 'Redact' },
  { value: 'mask', label: 'Mask' },
  { value: 'reveal_with_purpose', label: 'Reveal with purpose' },
  { value: 'reveal', label: 'Reveal' },
];
const meaning = {
  redact: 'Redact hides the data.',
  mask: 'Mask shows the masked value, or hides the data if the token has no mask.',
  reveal_with_purpose:
    'Reveal with purpose shows the data to requests that say why they are made, and the masked value to others.',
  reveal: 'Reveal shows the data.',
} as const;

export function RuleEditor({ owner, rule, number, errors, change, remove }: Props) {
  const choices = [...new Set([...common, ...rule.permissions])];
  const transform = outcomeIn(rule) as keyof typeof meaning;
  const toggle = (name: string) => {
    const { destinations, defaults, ...rest } = rule;
    const permissions = rule.permissions.includes(name)
      ? rule.permissions.filter((each) => each !== name)
      : [...rule.permissions, name];
    const isUse = permissions.includes('token:use');
    const isCreate = defaults && permissions.includes('token:create');
    change({
      ...rest,
      permissions,
      ...(isUse && { destinations: destinations ?? [] }),
      ...(isCreate && { defaults }),
    });
  };
  return (
    <fieldset className="rule">
      <legend>Rule {number}</legend>
      <Tooltip label="Remove rule">
        <ActionIcon
          className="rule-remove"
          variant="subtle"
          color="gray"
          aria-label={`Remove rule ${number}`}
          onClick={remove}
        >
          <Icon name="trash" size={14} />
        </ActionIcon>
      </Tooltip>
      <div className="rule-line">
        {owner === 'session' ? null : (
          <TextInput
            className="grow"
            label="Container"
            placeholder={owner === 'management' ? 'All containers' : '/customers/'}
            value={rule.container ?? ''}
            error={errors('container')}
            onChange={({ currentTarget: { value } }) => {
              const { container: _, ...rest } = rule;
              change(value === '' && owner === 'management' ? rest : { ...rest, container: value });
            }}
          />
        )}
        <TextInput
          className="narrow"
          label="Priority"
          type="number"
          min={1}
          value={String(rule.priority)}
          error={errors('priority')}
          onChange={(event) => change({ ...rule, priority: Number(event.currentTarget.value) })}
        />
        <div>
          <span className="field-label">Transform</span>
          <SegmentedControl
            aria-label={`Transform of rule ${number}`}
            data={transforms}
            value={transform}
            onChange={(value) => change(withTransform(rule, value as keyof typeof meaning))}
          />
        </div>
      </div>
      {owner === 'session' && <Conditions rule={rule} change={change} errors={errors} />}
      <div>
        <span className="field-label">Permissions</span>
        <div className="chips">
          {choices.map((name) => (
            <button
              key={name}
              type="button"
              className="chip"
              aria-pressed={rule.permissions.includes(name)}
              onClick={() => toggle(name)}
            >
              {name}
            </button>
          ))}
          <PermissionSelect
            owner={owner}
            chosen={choices}
            label={`Add permission to rule ${number}`}
            add={toggle}
          />
        </div>
        {errors('permissions') && <p className="error-text">{errors('permissions')}</p>}
      </div>
      {rule.permissions.includes('token:use') && (
        <DestinationsField rule={rule} change={change} error={errors('destinations')} />
      )}
      {rule.permissions.includes('token:create') && (
        <DefaultsField rule={rule} change={change} error={errors('defaults')} />
      )}
      <TextInput
        label="Description"
        placeholder="Optional: why this rule exists"
        value={rule.description ?? ''}
        error={errors('description')}
        onChange={({ currentTarget: { value } }) => {
          const { description: _, ...rest } = rule;
          change(value === '' ? rest : { ...rest, description: value });
        }}
      />
      {owner !== 'session' && <EndField rule={rule} change={change} error={errors('expires_at')} />}
      <p className="fine">
        {meaning[transform]} Of the matching rules, the one with the lowest priority decides.
      </p>
    </fieldset>
  );
}

interface FieldProps extends Pick<Props, 'rule' | 'change'> {
  readonly error: string | undefined;
}

/** Where tokens may be used. Destinations that were deleted or are not visible are shown with their ids. */
function DestinationsField({ rule, change, error }: FieldProps) {
  const chosen = rule.destinations ?? [];
  const { data = [] } = useDestinations();
  const ids = [...new Set([...data.map(({ id }) => id), ...chosen])];
  const toggle = (id: string) =>
    change({
      ...rule,
      destinations: chosen.includes(id) ? chosen.filter((each) => each !== id) : [...chosen, id],
    });
  return (
    <div>
      <span className="field-label">Destinations for token:use</span>
      <div className="chips">
        {ids.map((id) => (
          <button
            key={id}
            type="button"
            className="chip"
            aria-pressed={chosen.includes(id)}
            onClick={() => toggle(id)}
          >
            {destinationName(id)}
          </button>
        ))}
      </div>
      {ids.length === 0 && <p className="fine">Create a destination first.</p>}
      {error && <p className="error-text">{error}</p>}
    </div>
  );
}

/** When the rule ends: a day from now at first. Without a time it does not end. */
function EndField({ rule, change, error }: FieldProps) {
  const { expires_at: end, ...rest } = rule;
  const set = (time: string) => change(time === '' ? rest : { ...rest, expires_at: time });
  const nextDay = () => `${new Date(Date.now() + 86_400_000).toISOString().slice(0, 16)}:00.000Z`;
  return (
    <div>
      {end === undefined ? (
        <Button variant="subtle" size="compact-xs" onClick={() => set(nextDay())}>
          Set an end
        </Button>
      ) : (
        <TimeInput label="Ends" value={end} change={set} />
      )}
      {error && <p className="error-text">{error}</p>}
    </div>
  );
}

/** A text that is not JSON stays in the draft, which is then not valid. */
function DefaultsField({ rule, change, error }: FieldProps) {
  const [typed, setTyped] = useState('');
  const isTyped = JSON.stringify(parseDefaults(typed)) === JSON.stringify(rule.defaults);
  const text = isTyped ? typed : formatDefaults(rule.defaults);
  return (
    <Textarea
      label="Defaults for new tokens"
      description={`JSON with "mask" and "search", for tokens that are created without them. Optional.`}
      placeholder={`{ "mask": "{{ data.number | reveal_last: 4 }}", "search": { "pan": "{{ data.number }}" } }`}
      rows={text === '' ? 1 : 6}
      spellCheck={false}
      classNames={{ input: 'mono' }}
      value={text}
      error={error}
      onChange={({ currentTarget: { value } }) => {
        const { defaults: _, ...rest } = rule;
        const defaults = parseDefaults(value);
        setTyped(value);
        change(defaults === undefined ? rest : { ...rest, defaults });
      }}
    />
  );
}

function formatDefaults(defaults: AccessRule['defaults'] | string): string {
  if (defaults === undefined) return '';
  return typeof defaults === 'string' ? defaults : JSON.stringify(defaults, null, 2);
}

function parseDefaults(text: string): AccessRule['defaults'] {
  if (text.trim() === '') return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return text as unknown as AccessRule['defaults'];
  }
}

function withTransform(rule: AccessRule, value: keyof typeof meaning): AccessRule {
  const { require_purpose: _, ...rest } = rule;
  if (value === 'reveal_with_purpose') return { ...rest, transform: 'reveal', require_purpose: true };
  return { ...rest, transform: value };
}

function Conditions({ rule, change, errors }: Pick<Props, 'rule' | 'change' | 'errors'>) {
  const conditions = rule.conditions ?? [];
  const replace = (at: number, condition: AccessRuleCondition | undefined) =>
    change({
      ...rule,
      conditions: conditions.flatMap((each, index) => (index === at ? (condition ?? []) : each)),
    });
  return (
    <div className="stack-tight">
      <span className="field-label">Conditions (all must match)</span>
      {conditions.map((condition, index) => (
        <div className="rule-line" key={index}>
          <Select
            aria-label="Attribute"
            className="middling"
            data={['container', 'id']}
            value={condition.attribute}
            allowDeselect={false}
            onChange={(value) => replace(index, { ...condition, attribute: value as 'id' | 'container' })}
          />
          <Select
            aria-label="Comparison"
            className="middling"
            data={[
              { value: 'starts_with', label: condition.attribute === 'id' ? 'starts with' : 'is in' },
              { value: 'equals', label: 'equals' },
            ]}
            value={condition.operator}
            allowDeselect={false}
            onChange={(value) =>
              replace(index, { ...condition, operator: value as 'equals' | 'starts_with' })
            }
          />
          <TextInput
            className="grow"
            aria-label="Value"
            value={condition.value}
            error={errors(`conditions.${index}.value`)}
            onChange={(event) => replace(index, { ...condition, value: event.currentTarget.value })}
          />
          <ActionIcon
            variant="subtle"
            color="gray"
            aria-label={`Remove condition ${index + 1}`}
            disabled={conditions.length === 1}
            onClick={() => replace(index, undefined)}
          >
            <Icon name="cross" size={14} />
          </ActionIcon>
        </div>
      ))}
      <div>
        <Button
          variant="subtle"
          size="compact-xs"
          onClick={() => change({ ...rule, conditions: [...conditions, newCondition()] })}
        >
          Add condition
        </Button>
      </div>
    </div>
  );
}
