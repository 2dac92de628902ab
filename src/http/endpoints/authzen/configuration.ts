import { z } from 'zod';
import { throwIfInvalid } from '../../../domain/error.ts';
import { openEndpoint, reply } from '../../pipeline/route.ts';
import { example } from '../../reference/examples.ts';
import { conventions, tag } from './conventions.ts';

const paths = {
  access_evaluation_endpoint: '/access/v1/evaluation',
  access_evaluations_endpoint: '/access/v1/evaluations',
  search_subject_endpoint: '/access/v1/search/subject',
  search_resource_endpoint: '/access/v1/search/resource',
  search_action_endpoint: '/access/v1/search/action',
};

const AuthZenConfiguration = z
  .object({
    policy_decision_point: z.string().describe('The base URL of this service.'),
    access_evaluation_endpoint: z.string().describe('URL for a single evaluation.'),
    access_evaluations_endpoint: z.string().describe('URL for several evaluations.'),
    search_subject_endpoint: z.string().describe('URL to search subjects.'),
    search_resource_endpoint: z.string().describe('URL to search resources.'),
    search_action_endpoint: z.string().describe('URL to search actions.'),
  })
  .meta({ id: 'AuthZenConfiguration' });

export const getAuthZenConfiguration = openEndpoint({
  name: 'getAuthZenConfiguration',
  tag,
  summary: 'Get the AuthZEN configuration',
  description:
    'Returns the URLs of the AuthZEN endpoints. They start with `SALLYPORT_PUBLIC_URL`, or without it, with the URL of this request.',
  conventions,
  replies: { 200: reply('The URLs.', AuthZenConfiguration, example.authzen.configuration) },
  failures: ['validation_failed'],
  handle: async ({ publicUrl }, request) => {
    const base = baseUrl(publicUrl, request);
    const endpoints = Object.entries(paths).map(([name, path]) => [name, base + path]);
    return { status: 200, body: { policy_decision_point: base, ...Object.fromEntries(endpoints) } };
  },
});

/** The configured URL, or else the origin of a request. Throws `validation_failed` if its Host header is invalid. */
function baseUrl(publicUrl: string | undefined, request: Request): string {
  if (publicUrl !== undefined) return publicUrl;
  if (!URL.canParse(request.url)) throwIfInvalid({ host: ['must be a valid host'] });
  return new URL(request.url).origin;
}
