import type { z } from 'zod';
import { mapOf, text } from './common-fields.ts';

/** Labels group applications, for example by team. They grant no access. */
export const maxLabels = 20;
/** The number of labels that a list can filter by. Each one adds lookups for every application that is examined. */
export const maxLabelFilters = 3;

const LabelName = text(1, 63).regex(
  /^[a-z][a-z0-9._/-]*$/,
  'must have lower-case letters, digits, and . _ / - only, and start with a letter',
);
const LabelValue = text(1, 100).regex(
  /^[A-Za-z0-9][A-Za-z0-9._/@:-]*$/,
  'must have letters, digits, and . _ / @ : - only, and start with a letter or digit',
);
function labelsUpTo(most: number) {
  return mapOf(most, LabelName, LabelValue).meta({
    type: 'object',
    additionalProperties: { type: 'string', minLength: 1, maxLength: 100 },
    maxProperties: most,
  });
}

export const Labels = labelsUpTo(maxLabels);
export type Labels = Readonly<z.infer<typeof Labels>>;

/** The `label[NAME]=VALUE` filters of a list. */
export const LabelFilter = labelsUpTo(maxLabelFilters);

export function hasLabels(labels: Labels | undefined, wanted: Labels): boolean {
  return Object.entries(wanted).every(([name, value]) => labels?.[name] === value);
}
